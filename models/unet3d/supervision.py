"""Deep supervision: the labels and the loss weights of the coarser decoder levels."""

import mtf_imaging as mi
from mtf_imaging.models.unet3d import resolution


def level_weights(number):
    """Returns the loss weights of the `number` finest levels: `1, 1/2, 1/4, ...`, divided by their sum.

    nnU-Net uses the same weights (Isensee et al. 2021, `nnUNetTrainer._build_loss`).

    >>> level_weights(2)
    [0.6666666666666666, 0.3333333333333333]
    """
    weights = [0.5**level for level in range(number)]
    return [weight / sum(weights) for weight in weights]


def labels_of_level(labels, logits, strides, level):
    """Returns the labels at the resolution of a level.

    With strides p, q and r, `y[b, i, j, k] = x[b, p i, q j, r k]`.

    Voxel `p i` is the first of the window that the max pools of the encoder reduce to voxel i of the level. This holds
    for all sizes, because their SAME padding adds voxels of padding only at the end. No label is averaged, so this also
    holds for any number of labels, and for the ignore label.

    Args:
      labels: int32 Tensor[batch, x, y, z]
      logits: Tensor[batch, x / p, y / q, z / r, classes] with sizes rounded up, in which dimensions may be gathered
        (`mi.ops.gather_slices`).
      strides: strides of the level along x, y and z, relative to `labels`.
      level: index of the level, for names. Level 0 has the resolution of `labels`.

    Returns:
      int32 Tensor[batch, x / p, y / q, z / r] with sizes rounded up and the dimension names of the logits.
    """
    if not level:
        return labels
    strides = resolution.per_axis(logits, strides)
    rows = zip(labels.shape.dims[1:], resolution.spatial_dims(logits), strides, strict=True)
    late, early = resolution.divisible_slices(
        labels, {dim: stride for dim, now, stride in rows if dim.name != now.name}
    )
    # A pool with a window of 1 samples every n-th voxel under any layout. It needs a floating-point tensor with
    # channels, here under a name that no layout rule mentions.
    x = mi.mtf.cast(labels, logits.dtype)
    x = mi.mtf.reshape(x, mi.mtf.Shape([*labels.shape.dims, mi.mtf.Dimension("label", 1)]))
    x = mi.ops.gather_slices(x, early, f"labels{level}_gather")
    x = resolution.max_pool(x, 1, strides, name=f"labels{level}")
    x = mi.ops.gather_slices(x, late, f"labels{level}_gather")
    return mi.mtf.cast(mi.mtf.reshape(x, mi.mtf.Shape(x.shape.dims[:-1])), labels.dtype)
