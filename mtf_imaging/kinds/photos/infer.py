"""The probabilities of a whole photo at its own size, averaged over scales and flips."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.evaluation.averaging.flips import over_flips
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.native import pad_photo, padded_size
from mtf_imaging.kinds.photos.resize import resize_bilinear

AXES = ("height", "width")  # the names of the axes that can be flipped
Network = Callable[[np.ndarray], np.ndarray]
_MULTIPLE = 64  # pixels


def prediction_multiple(task: Any) -> int:
    """Returns the number of pixels to whose multiples photos larger than the crops of the training are padded."""
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
    """Returns the probabilities of the classes for each pixel of a photo.

    For every scale, the photo is resized bilinearly, padded at its bottom and right to a size that the network takes,
    and predicted; the probabilities are resized back. The result is the mean over all scales and, for each of them,
    over all combinations of flips.

    Args:
      photo: uint8 `[height, width, 3]`.
      network: a function that maps an image, float32 `[height, width, 3]` after scaling, to probabilities
        `[height, width, classes]`. Its image has the size that `padded_size` returns.
      description: the classes, the scaling of pixel values, and the value of padding.
      crop: height and width of the crops in training, the smallest size that the network sees.
      multiple: a larger photo is padded to a multiple of this number.
      scales: factors of the photo's size.
      flips: names of `AXES`.

    Returns:
      float32 `[height, width, classes]`.

    Raises:
      ShapeError: the network returns an array of another shape.
      DataError: the network returns NaN or infinity.
    """
    size = photo.shape[:2]

    def predict(image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        padded = padded_size(height, width, crop, multiple)
        probabilities = network(description.scale(pad_photo(image, padded, description)))
        expected = (*padded, len(description.classes))
        if probabilities.shape != expected:
            raise ShapeError(
                f"the network returned an array of shape {probabilities.shape} for an image of "
                f"{padded[0]} x {padded[1]} pixels; {len(description.classes)} classes need the shape {expected}. "
                "Fix: return one probability per class for every pixel."
            )
        return probabilities[:height, :width]

    averaged = over_flips(predict, flips, AXES)
    total = None
    for scale in scales:
        image = resize_bilinear(photo, scaled_size(size, scale)) if scale != 1 else photo
        probabilities = resize_bilinear(averaged(image), size)
        if total is None:
            total = np.array(probabilities, np.float32)
        else:
            total += probabilities
        del probabilities  # before the next run allocates its own
    if total is None:
        raise ValueError("scales is empty")
    total /= len(scales)
    if not np.isfinite(total).all():
        raise DataError("the network returned NaN or infinity. Fix: lower the learning rate.")
    return total


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
