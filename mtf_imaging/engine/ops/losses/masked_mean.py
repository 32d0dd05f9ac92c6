"""The mean over the voxels that count."""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.over_batch import over_batch
from mtf_imaging.engine.ops.precision import widen
from mtf_imaging.engine.ops.weighing import weigh
from mtf_imaging.errors import ShapeError


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
