"""The mean over the voxels that count, and products with their weights."""

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.ops.over_batch import over_batch
from mtf_imaging.ops.precision import widen


def weigh(x: mtf.Tensor, mask: mtf.Tensor) -> mtf.Tensor:
    """Returns `x mask`, and 0 where the mask is 0, even if `x` is NaN or infinite there.

    Args:
      x: Tensor[...]
      mask: Tensor with some dimensions of `x`, of any dtype.
    """
    return _product(x, mtf.broadcast(mtf.cast(mask, x.dtype), x.shape))


def _product(x: mtf.Tensor, y: mtf.Tensor) -> mtf.Tensor:
    """Returns `x y`, and 0 where `y` is 0; so do the gradients of TensorFlow's function."""

    def gradient(op: mtf.Operation, dz: mtf.Tensor) -> list[mtf.Tensor]:
        x, y = op.inputs
        return [_product(dz, y), _product(x, dz)]

    return mtf.cwise(tf.math.multiply_no_nan, [x, y], grad_function=gradient, name="weigh")


def masked_mean(x: mtf.Tensor, mask: mtf.Tensor) -> mtf.Tensor:
    """Computes the mean of `x` over the voxels of a mask: `sum(x mask) / sum(mask)`, or 0 if the mask is 0 everywhere.

    The sums cover all cases of the batch, also in micro-batches (`over_batch`). They are computed in float32 if `x` has
    fewer bits. Every dimension may be split.

    Args:
      x: Tensor[...]. Its values outside of the mask do not count, even if they are NaN or infinite.
      mask: Tensor[...] with the shape of `x` and any dtype, 1 for the voxels that count and 0 for all others, or other
        weights of the voxels, such as 0.5.

    Returns:
      A scalar Tensor, float32 or larger.

    Raises:
      ShapeError: the shapes differ.
    """
    if x.shape != mask.shape:
        raise ShapeError(f"masked_mean: the mask must have the shape of the values, {x.shape}, but it has {mask.shape}")
    x = widen(x)
    total = over_batch(mtf.reduce_sum(weigh(x, mask)))
    count = over_batch(mtf.reduce_sum(mtf.cast(mask, x.dtype)))
    return total / mtf.where(mtf.equal(count, 0), 1, count)
