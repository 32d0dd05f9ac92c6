"""The level of a feature pyramid from which a region of interest (RoI) takes its features."""

import math

import tensorflow as tf

import mtf_imaging as mi

_CANONICAL_LEVEL = 4


def roi_levels(boxes, min_level, max_level, canonical_size):
    """Returns the level of each RoI (Lin et al. 2017, equation 1).

    `level = floor(4 + log2(sqrt(area) / canonical_size))`, limited to the levels from `min_level` to `max_level`.

    Args:
      boxes: Tensor[batch, rois, coords]
      min_level, max_level: the first and the last level.
      canonical_size: side in pixels of a square that belongs to level 4.

    Returns:
      int32 Tensor[batch, rois], 0 for `min_level`.
    """
    *rois, _ = boxes.shape.dims

    def levels(boxes):
        area = tf.reduce_prod(tf.maximum(boxes[..., 2:] - boxes[..., :2], 0), -1)
        # An area is compared with the squares of powers of two, because a logarithm may be rounded to the next integer.
        ends = [
            (canonical_size * math.ldexp(1.0, n - _CANONICAL_LEVEL)) ** 2 for n in range(min_level + 1, max_level + 1)
        ]
        reached = [tf.cast(area >= tf.constant(end, area.dtype), tf.int32) for end in ends]
        return tf.add_n(reached) if reached else tf.zeros(tf.shape(area), tf.int32)

    return mi.mtf.slicewise(
        levels, [mi.mtf.stop_gradient(boxes)], mi.mtf.Shape(rois), tf.int32, rois, name="roi_levels"
    )
