"""Random changes of images and their objects during training."""

from dataclasses import dataclass

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.pixels.batches import check_scales
from mtf_imaging.data.pixels.color_jitter import check_colors


@dataclass(frozen=True)
class ObjectAugmentation:
    """Scales and flips images and their objects, and changes colors.

    The random numbers depend only on the run's seed and the sample number.

    Attributes:
      min_scale, max_scale: bounds of the factor that scales an image after it has been fitted to the network
        input. The reference recipes for RetinaNet and Mask R-CNN use 0.8 to 1.2; long schedules use 0.1 to 2.
      flip: whether to mirror left and right with probability 1/2.
      brightness, contrast, saturation: the largest random color changes; a factor is drawn from 1 - x to 1 + x,
        and 0 changes nothing. torchvision's `RandomPhotometricDistort`, which follows SSD, uses 0.125, 0.5 and 0.5
        in half of the samples.
      hue: the largest random hue change, as a fraction of the color circle; `RandomPhotometricDistort` uses 0.05.
    """

    min_scale: float = 0.8
    max_scale: float = 1.2
    flip: bool = True
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0

    def __post_init__(self):
        check_scales(self, min_scale=0.01, max_scale=0.01)
        check_colors(self)

    def draw_scale(self, draws: Draws):
        """Returns the factor of a sample, Tensor[] float32."""
        return draws.uniform("scale", self.min_scale, self.max_scale)

    def draw_flip(self, draws: Draws):
        """Returns whether to mirror a sample, Tensor[] bool."""
        return draws.chance("flip", 0.5 if self.flip else 0.0)
