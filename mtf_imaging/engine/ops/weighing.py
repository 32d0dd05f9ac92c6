"""Products that select: they are 0 where a weight is 0, whatever the other factor."""

import tensorflow as tf

from mtf_imaging.engine.compat import mtf


def weigh(x: mtf.Tensor, mask: mtf.Tensor) -> mtf.Tensor:
    """Returns `x mask`, and 0 where the mask is 0, even if `x` is NaN or infinite there.

    Args:
      x: Tensor[...]
      mask: Tensor with some dimensions of `x`, of any dtype.
    """
    mask = mtf.broadcast(mtf.cast(mask, x.dtype), x.shape)

    def gradient(op: mtf.Operation, dy: mtf.Tensor) -> list[mtf.Tensor]:
        x, mask = op.inputs
        return [weigh(dy, mask), weigh(x, dy)]

    return mtf.cwise(tf.math.multiply_no_nan, [x, mask], grad_function=gradient, name="weigh")
