"""The scalings of pixel values, which map red, green and blue in 0..255 to network input."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mtf_imaging.errors import DataError
from mtf_imaging.spelling import did_you_mean

UNIT, MEAN, IMAGENET = "unit", "mean", "imagenet"
SCALINGS = (UNIT, MEAN, IMAGENET)
# The mean of ImageNet photos, which DeepLab subtracts before a ResNet.
_MEAN_OF_IMAGENET = (123.68, 116.779, 103.939)
# The mean and the standard deviation, in units of 255, that detectors use before a ResNet.
_DETECTORS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# {scaling: (the value that becomes 0, the difference that becomes 1)}
_SCALES: dict[str, tuple[Any, Any]] = {
    UNIT: ((127.5,) * 3, 127.5),
    MEAN: (_MEAN_OF_IMAGENET, 1.0),
    IMAGENET: tuple(tuple(255 * value for value in values) for values in _DETECTORS),  # type: ignore[dict-item]
}


class Scaled:
    """Base class of image descriptions with a scaling of pixel values."""

    scaling: str

    @property
    def padding(self) -> np.ndarray:
        """The pixel value, float32 `[3]`, beyond the borders of an image; `scale` maps it to 0."""
        return np.array(_SCALES[self.scaling][0], np.float32)

    def scale(self, pixels, divisor: Callable = np.asarray):
        """Returns network input, float32 `[..., 3]`.

        Args:
          pixels: red, green and blue in 0..255: an array of any dtype, or Tensor float32.
          divisor: converts a divisor; an exported network needs `meshes.portable.divisor`.
        """
        if isinstance(pixels, np.ndarray):
            pixels = pixels.astype(np.float32)
        return (pixels - self.padding) / divisor(np.array(_SCALES[self.scaling][1] * np.ones(3), np.float32))


def check_keys(fields: Iterable[str], known: Sequence[str], where: str) -> None:
    """Raises DataError if the fields of a description have an unknown key.

    Args:
      fields: the keys.
      known: the keys that a description may have.
      where: the file that contains the fields, for the message.
    """
    for key in fields:
        if key not in known:
            raise DataError(
                f"{where}: the key '{key}' is not known.{did_you_mean(key, known)} Fix: use only {', '.join(known)}."
            )
