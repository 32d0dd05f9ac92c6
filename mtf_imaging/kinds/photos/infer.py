"""Predicts the probabilities of a whole photo at its own size, averaged over scales and flips."""

import dataclasses
import itertools
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mtf_imaging.data.pixels.photo_files import photo_size
from mtf_imaging.data.sampling.grid import PHOTO_AXES
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.inference.network import Prediction
from mtf_imaging.kinds.batches import BatchNetwork, Steps, batch_network, named
from mtf_imaging.kinds.output import scaled_size
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.folders import Photo
from mtf_imaging.kinds.photos.resize import pad_photo, padded_size, resize_bilinear

_MULTIPLE = 64  # pixels


def prediction_multiple(task: object) -> int:
    """Returns the number to whose multiples photos larger than the training crops are padded, in pixels."""
    return getattr(task, "multiple", _MULTIPLE)


class ReadPhoto(NamedTuple):
    """A photo in memory.

    Attributes:
      pixels: uint8 `[height, width, 3]`.
      reference: classes and the ignore label, `[height, width]`; None without labels.
    """

    pixels: np.ndarray
    reference: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class PhotoInference:
    """How the classes of pixels are predicted.

    Attributes:
      description: the classes, the scaling of pixel values, and the value of padding.
      crop: height and width of the training crops, the smallest network input.
      multiple: a larger photo is padded to a multiple of this number.
      scales: factors of the photo's size, over which probabilities are averaged.
      flips: names of `PHOTO_AXES`, over whose combinations probabilities are averaged.
    """

    description: PhotoDescription
    crop: tuple[int, int]
    multiple: int
    scales: Sequence[float] = (1.0,)
    flips: Sequence[str] = ()

    def padded_sizes(self, size: tuple[int, int]) -> tuple[tuple[int, int], ...]:
        """Returns the network input size of a photo at each scale."""
        scaled = (scaled_size(size, scale) for scale in self.scales)
        return tuple(padded_size(*own, self.crop, self.multiple) for own in scaled)

    def steps(
        self,
        network: Callable[[np.ndarray], Prediction],
        read: Callable[[Photo], ReadPhoto],
        batch_size: int = 1,
    ) -> Steps[Photo, ReadPhoto, np.ndarray]:
        """Returns the steps from a photo to the class of each pixel, uint8 `[height, width]`.

        Args:
          network: a function of one image.
          read: reads a photo.
          batch_size: the maximum number of photos that are computed together.
        """
        predict = batch_network(network)

        def infer(photos: Sequence[Photo], read: Sequence[ReadPhoto]) -> list[np.ndarray]:
            files = [photo.image for photo in photos]
            return [most_probable(own) for own in predict_photos([one.pixels for one in read], predict, self, files)]

        return Steps(
            operator.attrgetter("image"),
            read,
            infer,
            batch_size,
            lambda photo: self.padded_sizes(photo_size(photo.image)),
        )


def predict_photos(
    photos: Sequence[np.ndarray], network: BatchNetwork, own: PhotoInference, files: Sequence[Path] = ()
) -> list[np.ndarray]:
    """Returns the probabilities of the classes for each pixel of each photo.

    For every scale, a photo is resized bilinearly, padded at its bottom and right to a size that the network accepts,
    and predicted; the probabilities are resized back. The result is the mean over all scales and all combinations of
    flips.

    Args:
      photos: uint8 `[height, width, 3]`, with the same `padded_sizes`.
      network: a function that maps images, float32 `[photos, height, width, 3]` after scaling, to probabilities
        `[height, width, classes]` for each of them. The images have one of the `padded_sizes`.
      own: how the classes are predicted.
      files: the files of the photos, for messages.

    Returns:
      float32 `[height, width, classes]` for each photo.

    Raises:
      ShapeError: the network returns an array of the wrong shape.
      DataError: the network returns NaN or infinity.
    """
    description, axes = own.description, [PHOTO_AXES.index(name) for name in own.flips]
    subsets = [subset for number in range(len(axes) + 1) for subset in itertools.combinations(axes, number)]

    def predict(images: Sequence[np.ndarray]) -> list[np.ndarray]:
        (padded,) = {padded_size(*image.shape[:2], own.crop, own.multiple) for image in images}
        with named(files, 0):
            results = network(np.stack([description.scale(pad_photo(image, padded, description)) for image in images]))
        expected = (*padded, len(description.classes))
        for probabilities in results:
            if probabilities.shape != expected:
                raise ShapeError(
                    f"the network returned {probabilities.shape} for a photo of {padded}, not {expected}. Fix: return "
                    f"a probability of each of the {len(description.classes)} classes for every pixel."
                )
        return [one[: image.shape[0], : image.shape[1]] for one, image in zip(results, images, strict=True)]

    totals: list[np.ndarray] = []
    for scale in own.scales:
        resized = [
            resize_bilinear(photo, scaled_size(photo.shape[:2], scale)) if scale != 1 else photo for photo in photos
        ]
        averaged = predict(resized) if len(subsets) == 1 else []  # without a copy
        for subset in subsets if len(subsets) > 1 else ():
            results = predict([np.flip(image, subset) for image in resized])
            _add(averaged, [np.flip(one, subset) for one in results])
            del results  # before the next run allocates its own
        if len(subsets) > 1:
            for total in averaged:
                total /= len(subsets)
        _add(totals, [resize_bilinear(one, photo.shape[:2]) for one, photo in zip(averaged, photos, strict=True)])
        del averaged
    for at, total in enumerate(totals):
        total /= len(own.scales)
        if not np.isfinite(total).all():
            with named(files, at):
                raise DataError("the network returned NaN or infinity. Fix: lower the learning rate.")
    return totals


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
