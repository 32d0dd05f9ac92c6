"""The mean over the voxels that count."""

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.ops.over_batch import over_batch


def masked_mean(x: mtf.Tensor, mask: mtf.Tensor) -> mtf.Tensor:
    """Computes the mean of `x` over the voxels of a mask: `sum(x mask) / sum(mask)`, or 0 if the mask is empty.

    The sums cover all cases of the batch, also in micro-batches (`over_batch`). Every dimension may be split.

    Args:
      x: Tensor[...], with finite values also outside of the mask.
      mask: Tensor[...] with the shape and dtype of `x`, 1 for the voxels that count and 0 for all others.

    Returns:
      A scalar Tensor.

    Raises:
      ShapeError: the shapes differ.
    """
    if x.shape != mask.shape:
        raise ShapeError(f"masked_mean: the mask must have the shape of the values, {x.shape}, but it has {mask.shape}")
    total, count = over_batch(mtf.reduce_sum(x * mask)), over_batch(mtf.reduce_sum(mask))
    return total / mtf.maximum(count, 1)
