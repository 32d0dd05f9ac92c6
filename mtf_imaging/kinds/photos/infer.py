"""Predicts the probabilities of a whole photo at its own size, averaged over scales and flips."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.native import pad_photo, padded_size
from mtf_imaging.kinds.photos.resize import resize_bilinear
from mtf_imaging.kinds.steps import BatchNetwork, named

AXES = ("height", "width")  # the names of the axes that can be flipped
Network = Callable[[np.ndarray], np.ndarray]
_MULTIPLE = 64  # pixels


def prediction_multiple(task: Any) -> int:
    """Returns the number to whose multiples photos larger than the training crops are padded, in pixels."""
    return getattr(task, "multiple", _MULTIPLE)


def predict_photo(
    photo: np.ndarray,
    network: Network,
    description: PhotoDescription,
    crop: tuple[int, int],
    multiple: int,
    scales: Sequence[float] = (1.0,),
    flips: Sequence[str] = (),
) -> np.ndarray:
    """Returns the probabilities of the classes for each pixel of a photo; see `predict_photos`.

    Args:
      photo: uint8 `[height, width, 3]`.
      network: a function of one image.
      description, crop, multiple, scales, flips: the same as in `predict_photos`.
    """

    def run(images: np.ndarray) -> list[np.ndarray]:
        return [network(images[0])]

    return predict_photos([photo], run, description, crop, multiple, scales, flips)[0]


def predict_photos(
    photos: Sequence[np.ndarray],
    network: BatchNetwork,
    description: PhotoDescription,
    crop: tuple[int, int],
    multiple: int,
    scales: Sequence[float] = (1.0,),
    flips: Sequence[str] = (),
    files: Sequence[Path] = (),
) -> list[np.ndarray]:
    """Returns the probabilities of the classes for each pixel of each photo.

    For every scale, a photo is resized bilinearly, padded at its bottom and right to a size that the network accepts,
    and predicted; the probabilities are resized back. The result is the mean over all scales and all combinations of
    flips.

    Args:
      photos: uint8 `[height, width, 3]`, with the same `padded_sizes`.
      network: a function that maps images, float32 `[photos, height, width, 3]` after scaling, to probabilities
        `[height, width, classes]` for each of them. The images have one of the `padded_sizes`.
      description: the classes, the scaling of pixel values, and the value of padding.
      crop: height and width of the training crops, the smallest network input.
      multiple: a larger photo is padded to a multiple of this number.
      scales: factors of the photo's size.
      flips: names of `AXES`.
      files: the files of the photos, for messages.

    Returns:
      float32 `[height, width, classes]` for each photo.

    Raises:
      ShapeError: the network returns an array of the wrong shape.
      DataError: the network returns NaN or infinity.
    """
    if not scales:
        raise ValueError("scales is empty")
    axes = [AXES.index(name) for name in flips]
    subsets = [subset for number in range(len(axes) + 1) for subset in itertools.combinations(axes, number)]

    def predict(images: Sequence[np.ndarray]) -> list[np.ndarray]:
        (padded,) = {padded_size(*image.shape[:2], crop, multiple) for image in images}
        with named(files, 0):
            results = network(np.stack([description.scale(pad_photo(image, padded, description)) for image in images]))
        expected = (*padded, len(description.classes))
        for probabilities in results:
            if probabilities.shape != expected:
                raise ShapeError(
                    f"the network returned an array of shape {probabilities.shape} for an image of "
                    f"{padded[0]} x {padded[1]} pixels; {len(description.classes)} classes need the shape {expected}. "
                    "Fix: return one probability per class for every pixel."
                )
        return [own[: image.shape[0], : image.shape[1]] for own, image in zip(results, images, strict=True)]

    totals: list[np.ndarray] = []
    for scale in scales:
        resized = [
            resize_bilinear(photo, scaled_size(photo.shape[:2], scale)) if scale != 1 else photo for photo in photos
        ]
        averaged = predict(resized) if len(subsets) == 1 else []  # without a copy
        for subset in subsets if len(subsets) > 1 else ():
            results = predict([np.flip(image, subset) for image in resized])
            _add(averaged, [np.flip(own, subset) for own in results])
            del results  # before the next run allocates its own
        if len(subsets) > 1:
            for own in averaged:
                own /= len(subsets)
        _add(totals, [resize_bilinear(own, photo.shape[:2]) for own, photo in zip(averaged, photos, strict=True)])
        del averaged
    for at, own in enumerate(totals):
        own /= len(scales)
        if not np.isfinite(own).all():
            with named(files, at):
                raise DataError("the network returned NaN or infinity. Fix: lower the learning rate.")
    return totals


def padded_sizes(
    size: tuple[int, int], crop: tuple[int, int], multiple: int, scales: Sequence[float]
) -> tuple[tuple[int, int], ...]:
    """Returns the network input size of a photo at each scale."""
    return tuple(padded_size(*scaled_size(size, scale), crop, multiple) for scale in scales)


def _add(totals: list[np.ndarray], results: list[np.ndarray]) -> None:
    """Adds results to float32 sums; the first results start the sums."""
    if not totals:
        totals += [np.array(result, np.promote_types(result.dtype, np.float32)) for result in results]
    else:
        for total, result in zip(totals, results, strict=True):
            total += result


def most_probable(probabilities: np.ndarray) -> np.ndarray:
    """Returns the class with the highest probability for each pixel, uint8 `[height, width]`.

    Args:
      probabilities: `[height, width, classes]`.
    """
    labels = np.empty(probabilities.shape[:2], np.uint8)
    for row, values in enumerate(probabilities):  # NumPy's argmax needs 8 bytes per pixel
        labels[row] = values.argmax(axis=-1)
    return labels


def scaled_size(size: tuple[int, int], scale: float) -> tuple[int, int]:
    """Returns the height and width of a photo after scaling by a factor.

    >>> scaled_size((333, 500), 0.5), scaled_size((1, 500), 0.25)
    ((166, 250), (1, 125))
    """
    height, width = (max(1, round(n * scale)) for n in size)
    return height, width
