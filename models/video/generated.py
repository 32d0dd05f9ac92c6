"""Clips that are generated during training: a moving shape in random colors."""

import dataclasses

import gin
import tensorflow as tf

from mtf_imaging.models.generated import Generated
from mtf_imaging.models.video import moving_shape
from mtf_imaging.parameters import parameter


@gin.configurable(module="video")
@dataclasses.dataclass(frozen=True)
class GeneratedClips(Generated):
    """An endless data set of generated clips.

    Every clip is used once, so the training accuracy is the accuracy on unseen clips. A clip shows a shape that moves
    left, right, up or down, or turns clockwise or counterclockwise, with noise. Its label is the motion. The form, the
    size, the colors, the stripes, the first position, the first angle and the speed are random and do not depend on the
    label. A single frame does not reveal the label, because its distribution is the same for all labels: see
    `moving_shape`. Clip i depends only on i and the seed, not on the batch size or the first step of a run.

    Attributes:
      frames: number of frames of a clip, at least 2.
      height: height of a frame in pixels, at least 16.
      width: width of a frame in pixels, at least 16.
      noise: standard deviation of the noise. Colors range from 0 to 1.
    """

    frames: int = parameter(8, least=2)
    height: int = parameter(32, least=16)
    width: int = parameter(32, least=16)
    noise: float = parameter(0.1, least=0)

    classes = moving_shape.CLASSES

    def sizes(self, data_dir):
        """Returns the number of frames, the height and the width of a clip. The folder is not read."""
        return self.frames, self.height, self.width

    def draw(self, seed, index, sizes):
        """Returns clip `index`, float32 [frames, height, width, 3], and its label, int32 []."""
        # The default algorithm depends on the device; Philox draws the same numbers on every device.
        number = tf.random.stateless_uniform([1 + moving_shape.NUM_NUMBERS], [seed, index], alg="philox")
        noise = tf.random.stateless_normal([*sizes, 3], [seed, -1 - index], alg="philox")
        label = tf.cast(number[0] * len(moving_shape.CLASSES), tf.int32)
        poses = moving_shape.poses(number[1:], label, sizes)
        return moving_shape.paint(poses, number[1:], sizes) + self.noise * noise, label
