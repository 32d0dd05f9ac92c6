"""Random color changes, which depend only on the run's seed and the sample number.

Each pixel is changed separately, so its color does not depend on the region that a crop reads.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws

_MIDDLE = 127.5  # the gray value that contrast does not change
_GRAY = (0.299, 0.587, 0.114)  # the weights of ITU-R 601, as in Pillow and torchvision


class Colors(NamedTuple):
    """The color changes of a sample; see `jitter_colors`.

    Attributes:
      brightness, contrast, saturation: Tensor[] float32, the factors; None to change nothing.
      hue: Tensor[] float32, the hue change as a fraction of the color circle; None to change nothing.
    """

    brightness: Any = None
    contrast: Any = None
    saturation: Any = None
    hue: Any = None


UNCHANGED = Colors()


def draw_colors(sample, seed: int, augmentation: object) -> Colors:
    """Draws the color changes of a sample.

    Args:
      sample: Tensor[] int64, the sample number.
      seed: the run's seed.
      augmentation: an object with the ranges `brightness`, `contrast`, `saturation` and `hue`, or None.
    """
    if augmentation is None:
        return UNCHANGED
    draws, drawn = Draws(seed, sample), {}
    for name in Colors._fields:
        extent = getattr(augmentation, name)
        if extent:
            middle = 0.0 if name == "hue" else 1.0
            drawn[name] = draws.uniform(name, middle - extent, middle + extent)
    return Colors(**drawn)


def jitter_colors(image, colors: Colors):
    """Changes brightness, contrast, saturation and hue, in this order; values are clipped to 0..255 after each.

    - brightness: x b
    - contrast: 127.5 + c (x - 127.5)
    - saturation: g + s (x - g), in which g = 0.299 red + 0.587 green + 0.114 blue
    - hue: the hue of the HSV color moves along the color circle

    Args:
      image: Tensor[..., 3] float32, red, green and blue in 0..255.
      colors: the changes.
    """
    if colors.brightness is not None:
        image = _clip(image * colors.brightness)
    if colors.contrast is not None:
        image = _clip(_MIDDLE + colors.contrast * (image - _MIDDLE))
    if colors.saturation is not None:
        gray = tf.reduce_sum(image * tf.constant(_GRAY, image.dtype), axis=-1, keepdims=True)
        image = _clip(gray + colors.saturation * (image - gray))
    if colors.hue is not None:
        image = _clip(tf.image.adjust_hue(image / 255, colors.hue) * 255)
    return image


def _clip(image):
    return tf.clip_by_value(image, 0.0, 255.0)
