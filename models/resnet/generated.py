"""Images that are generated during training: a disc with one of four textures, in random colors."""

import dataclasses
import math

import gin
import tensorflow as tf

from mtf_imaging.models.generated import Generated
from mtf_imaging.parameters import parameter

CLASSES = ("across", "upright", "slanted", "checked")


@gin.configurable(module="resnet")
@dataclasses.dataclass(frozen=True)
class GeneratedImages(Generated):
    """An endless data set of generated images.

    Every image is used once, so the training accuracy is the accuracy on unseen images. An image shows a disc of random
    position, size, colors and phase, with noise. Its label is the texture of the disc. Image i depends only on i and
    the seed, not on the batch size or the first step of a run.

    Attributes:
      height: height of an image in pixels, at least 8.
      width: width of an image in pixels, at least 8.
      noise: standard deviation of the noise. Colors range from 0 to 1.
    """

    height: int = parameter(64, least=8)
    width: int = parameter(64, least=8)
    noise: float = parameter(0.2, least=0)

    classes = CLASSES

    def sizes(self, data_dir):
        """Returns the height and the width of an image in pixels. The folder is not read."""
        return self.height, self.width

    def draw(self, seed, index, sizes):
        """Returns image `index`, float32 [height, width, 3], and its label, int32 []."""
        height, width = sizes
        # The default algorithm depends on the device; Philox draws the same numbers on every device.
        number = tf.random.stateless_uniform([11], [seed, index], alg="philox")
        noise = tf.random.stateless_normal([height, width, 3], [seed, -1 - index], alg="philox")
        label = tf.cast(number[0] * len(CLASSES), tf.int32)
        down, right = tf.meshgrid(tf.range(height, dtype=tf.float32), tf.range(width, dtype=tf.float32), indexing="ij")
        side = float(min(sizes))
        center = (0.35 + 0.3 * number[1]) * height, (0.35 + 0.3 * number[2]) * width
        disc = tf.sqrt((down - center[0]) ** 2 + (right - center[1]) ** 2) < (0.2 + 0.15 * number[3]) * side

        def bars(along, phase):
            return tf.cast(tf.sin(2 * math.pi * (along / (4.0 + 3.0 * number[4]) + phase)) > 0, tf.float32)

        across, upright = bars(down, number[5]), bars(right, number[6])
        texture = tf.stack([across, upright, bars((down + right) / 2**0.5, number[5]), tf.abs(across - upright)])[label]
        dark = 0.5 * number[7:10]  # a random hue
        image = tf.where(disc[..., tf.newaxis], dark + 0.5 * texture[..., tf.newaxis], number[10])
        return image + self.noise * noise, label
