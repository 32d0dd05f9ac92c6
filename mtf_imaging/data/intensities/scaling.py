"""The map from values to network input, for arrays and for tensors."""

import math
from typing import Any, NamedTuple

import numpy as np


class Scaling(NamedTuple):
    """A map from values to network input, `clip((value - offset) / scale, low, high)`.

    The attributes are numbers, or tensors that broadcast against the values.

    Attributes:
      offset, scale: the affine map.
      low, high: the bounds of the result; infinite if nothing is clipped.
      keep_zero: whether a value of 0 stays 0.
    """

    offset: Any = 0.0
    scale: Any = 1.0
    low: Any = -math.inf
    high: Any = math.inf
    keep_zero: Any = False

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Returns the scaled values as a new float32 array."""
        return self.overwrite(np.array(values, np.float32))

    def overwrite(self, values):
        """Returns the scaled values. An array is scaled in place, because it may be too large to copy.

        Args:
          values: array or Tensor, float32 of any shape.
        """
        zeros = None if self.keep_zero is False else values == 0
        values -= self.offset
        values /= self.scale
        if isinstance(values, np.ndarray):
            np.clip(values, self.low, self.high, out=values)
            if zeros is not None:
                values[zeros] = 0
            return values
        import tensorflow as tf

        values = tf.clip_by_value(values, self.low, self.high)
        return values if zeros is None else tf.where(zeros & self.keep_zero, 0.0, values)
