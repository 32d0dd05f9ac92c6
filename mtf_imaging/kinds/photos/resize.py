"""Sizes of photos: bilinear resizing, and padding to the sizes that a network accepts."""

import numpy as np

from mtf_imaging.errors import ShapeError
from mtf_imaging.kinds.photos.description import PhotoDescription


def resize_bilinear(array: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resizes an array like `tf.image.resize`: bilinear, with pixel centers at half-integer positions.

    Args:
      array: `[height, width, channels]`.
      size: the height and width of the result.

    Returns:
      float32 `[height, width, channels]`.
    """
    result = array.astype(np.float32, copy=False)
    for axis, length in enumerate(size):
        if result.shape[axis] != length:
            result = _resize_axis(result, axis, length)
    return result


def _resize_axis(array: np.ndarray, axis: int, length: int) -> np.ndarray:
    old = array.shape[axis]
    positions = np.clip((np.arange(length) + 0.5) * (old / length) - 0.5, 0, old - 1)
    before = np.floor(positions).astype(np.int64)
    shape = [1] * array.ndim
    shape[axis] = length
    weights = (positions - before).astype(np.float32).reshape(shape)
    first, second = array.take(before, axis), array.take(np.minimum(before + 1, old - 1), axis)
    second -= first
    second *= weights
    first += second
    return first


def padded_size(height: int, width: int, crop: tuple[int, int], multiple: int) -> tuple[int, int]:
    """Returns the padded size of a photo, chosen so that photos of many sizes need few programs.

    An axis that fits into the crop is padded to the crop, and a longer axis to the next multiple.

    >>> padded_size(375, 500, (513, 513), 16), padded_size(375, 1000, (513, 513), 16)
    ((513, 513), (513, 1008))

    Args:
      height, width: the size of the photo.
      crop: height and width of the training crops.
      multiple: the number that divides the size of a longer axis.
    """
    if multiple < 1:
        raise ShapeError(f"multiple {multiple}: must be at least 1. Fix: use the multiple of the network.")
    sizes = [
        side if length <= side else -(-length // multiple) * multiple for length, side in zip((height, width), crop)
    ]
    return sizes[0], sizes[1]


def pad_photo(image: np.ndarray, size: tuple[int, int], description: PhotoDescription) -> np.ndarray:
    """Pads a photo at the bottom and on the right with the value that `PhotoDescription.scale` maps to 0.

    The photo is padded before `scale` is applied, which expects values in 0..255.

    Args:
      image: pixel values in 0..255 `[height, width, 3]`, of any dtype.
      size: height and width of the result.
      description: the description with the padding value.

    Returns:
      float32 `[*size, 3]`; `[:height, :width]` is the photo.

    Raises:
      ShapeError: the photo has another shape or is larger than `size`.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.shape[0] > size[0] or image.shape[1] > size[1]:
        raise ShapeError(
            f"a photo of shape {image.shape} cannot be padded to {size[0]} x {size[1]} pixels with 3 channels. "
            "Fix: choose the size with padded_size."
        )
    padded = np.empty((*size, 3), np.float32)
    padded[:] = description.padding
    padded[: image.shape[0], : image.shape[1]] = image
    return padded
