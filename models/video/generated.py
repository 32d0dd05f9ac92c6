"""Clips that are generated during training: a moving shape in random colors."""

import dataclasses

import gin
import tensorflow as tf

from mtf_imaging.models.video import moving_shape
from mtf_imaging.parameters import check_parameters, parameter


@gin.configurable(module="video")
@dataclasses.dataclass(frozen=True)
class GeneratedClips:
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

    def __post_init__(self):
        check_parameters(self)

    def sizes(self, data_dir):
        """Returns the number of frames, the height and the width of a clip. The folder is not read."""
        return self.frames, self.height, self.width

    def batches(self, data_dir, *, batch_size, sizes, seed, start_step):
        """Yields batches without end, as in `mtf_imaging.training.data_set.DataSet`. The folder is not read.

        Yields:
          A dict of "image", float32 [batch_size, frames, height, width, 3]; "labels", int32 [batch_size]; and "cases",
          names such as "17-left".
        """
        clips = tf.data.Dataset.range(start_step * batch_size, tf.int64.max)
        clips = clips.map(lambda index: (index, *self._draw(seed, index, sizes)), num_parallel_calls=2)  # in order
        for indices, clip, labels in clips.batch(batch_size, drop_remainder=True).prefetch(2):
            cases = [f"{index}-{moving_shape.CLASSES[label]}" for index, label in zip(indices.numpy(), labels.numpy())]
            yield {"image": clip, "labels": labels, "cases": cases}

    def _draw(self, seed, index, sizes):
        """Returns clip `index`, float32 [frames, height, width, 3], and its label, int32 []."""
        # The default algorithm depends on the device; Philox draws the same numbers on every device.
        number = tf.random.stateless_uniform([1 + moving_shape.NUM_NUMBERS], [seed, index], alg="philox")
        noise = tf.random.stateless_normal([*sizes, 3], [seed, -1 - index], alg="philox")
        label = tf.cast(number[0] * len(moving_shape.CLASSES), tf.int32)
        poses = moving_shape.poses(number[1:], label, sizes)
        return moving_shape.paint(poses, number[1:], sizes) + self.noise * noise, label
