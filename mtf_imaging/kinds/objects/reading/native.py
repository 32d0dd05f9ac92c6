"""Scales whole images to the network input."""

import numpy as np

from mtf_imaging.data.pixels.crop_axis import crop_axis
from mtf_imaging.errors import ShapeError
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.masks import interpolate, neighbors


def fit_factor(height: int, width: int, size: tuple[int, int]) -> float:
    """Returns the largest factor at which an image fits a size."""
    return min(size[0] / height, size[1] / width)


def fit(
    pixels: np.ndarray, size: tuple[int, int], description: ObjectDescription
) -> tuple[np.ndarray, tuple[float, float]]:
    """Returns the network input for prediction: an image scaled to fit a size, padded at the bottom and right.

    `Objects` yields the same without augmentation.

    Args:
      pixels: values in 0..255, `[height, width, 3]`.
      size: height and width of the result.
      description: the scaling of the values. Padding is 0 after the scaling.

    Returns:
      The image, float32 `[*size, 3]`, and the factors for the height and the width. Due to rounding to whole pixels,
      the two may differ slightly.

    Raises:
      ShapeError: `pixels` has the wrong shape.
    """
    if pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ShapeError(f"an image of shape {pixels.shape} is not [height, width, 3]. Fix: pass red, green and blue.")
    factor = fit_factor(*pixels.shape[:2], size)
    rows, columns = (crop_axis(length, factor, count, 0.0) for length, count in zip(pixels.shape, size))
    whole = pixels[rows.region, columns.region]
    # In float32 and in this order, as in `crops.bilinear`.
    around = (neighbors(axis.centers - np.float32(0.5), n) for axis, n in zip((rows, columns), whole.shape))
    scaled = interpolate(whole, *around)
    image = np.zeros((*size, 3), np.float32)
    image[: scaled.shape[0], : scaled.shape[1]] = description.scale(scaled)
    return image, (rows.factor, columns.factor)
