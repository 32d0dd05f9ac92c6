"""Random changes of photos and their labels during training."""

import math
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.pixels.batches import check_scales
from mtf_imaging.data.pixels.color_jitter import check_colors


@dataclass(frozen=True)
class PhotoAugmentation:
    """Scales and flips photos and their labels, and changes colors.

    The random numbers depend only on the run's seed and the sample number.

    Attributes:
      min_scale, max_scale: bounds of the factor that multiplies the height and width of a photo.
      scale_step: difference between possible factors, which include both bounds; 0 for any factor between the
        bounds.
      flip: whether to mirror left and right with probability 1/2.
      brightness, contrast, saturation: the largest random color changes; a factor is drawn from 1 - x to 1 + x,
        and 0 changes nothing. torchvision's `RandomPhotometricDistort`, which follows SSD, uses 0.125, 0.5 and 0.5
        in half of the samples.
      hue: the largest random hue change, as a fraction of the color circle; `RandomPhotometricDistort` uses 0.05.
    """

    min_scale: float = 0.5
    max_scale: float = 2.0
    scale_step: float = 0.25
    flip: bool = True
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def __post_init__(self):
        check_scales(self, min_scale=0.01, max_scale=0.01, scale_step=0.0)
        check_colors(self)

    @property
    def scales(self) -> tuple[float, ...] | None:
        """The possible factors; None for any factor between the bounds."""
        if self.min_scale == self.max_scale:
            return (self.min_scale,)
        if not self.scale_step:
            return None
        count = math.floor((self.max_scale - self.min_scale) / self.scale_step + 1e-6) + 1
        return tuple(np.linspace(self.min_scale, self.max_scale, max(2, count)).tolist())

    def draw_scale(self, draws: Draws):
        """Returns the factor of a sample, Tensor[] float32."""
        scales = self.scales
        if scales is None:
            return draws.uniform("scale", self.min_scale, self.max_scale)
        number = tf.cast(draws.uniform("scale") * len(scales), tf.int32)
        return tf.constant(scales, tf.float32)[tf.minimum(number, len(scales) - 1)]

    def draw_flip(self, draws: Draws):
        """Returns whether to mirror a sample, Tensor[] bool."""
        return draws.chance("flip", 0.5 if self.flip else 0.0)
