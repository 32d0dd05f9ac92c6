"""Deep supervision: the labels and the loss weights of the coarser levels of the decoder."""

import mtf_imaging as mi
from mtf_imaging.models.unet3d import layers


def level_weights(number):
    """Returns the loss weights of the `number` finest levels: `1, 1/2, 1/4, ...`, divided by their sum.

    nnU-Net uses the same weights (Isensee et al. 2021, `nnUNetTrainer._build_loss`), and also excludes the lowest level
    of its decoder.

    >>> level_weights(2)
    [0.6666666666666666, 0.3333333333333333]
    """
    weights = [0.5**level for level in range(number)]
    return [weight / sum(weights) for weight in weights]


def labels_of_level(labels, logits, level):
    """Returns the labels at the resolution of a level: `y[b, i, j, k] = x[b, n i, n j, n k]` with `n = 2^level`.

    Voxel `n i` is the first of the window that the max pools of the encoder reduce to voxel i of the level. This holds
    for all sizes, because their SAME padding adds voxels of padding only at the end. No label is averaged, so this also
    holds for any number of labels, and for the ignore label.

    Args:
      labels: int32 Tensor[batch, x, y, z]
      logits: Tensor[batch, x / n, y / n, z / n, classes] with sizes rounded up, in which dimensions may be gathered
        (`mi.ops.gather_slices`).
      level: number of the level. Level 0 has the resolution of `labels`.

    Returns:
      int32 Tensor[batch, x / n, y / n, z / n] with sizes rounded up and the dimension names of the logits.
    """
    if not level:
        return labels
    dims = zip(labels.shape.dims[1:], logits.shape.dims[1:-1], strict=True)
    late, early = layers.divisible_slices(labels, [dim for dim, now in dims if dim.name != now.name], 2**level)
    # A pool with a window of 1 samples every n-th voxel under any layout. It needs a floating-point tensor with
    # channels, here under a name that no layout rule mentions.
    x = mi.mtf.cast(labels, logits.dtype)
    x = mi.mtf.reshape(x, mi.mtf.Shape([*labels.shape.dims, mi.mtf.Dimension("label", 1)]))
    x = mi.ops.gather_slices(x, early, f"labels{level}_gather")
    x = layers.max_pool(x, 1, 2**level, name=f"labels{level}")
    x = mi.ops.gather_slices(x, late, f"labels{level}_gather")
    return mi.mtf.cast(mi.mtf.reshape(x, mi.mtf.Shape(x.shape.dims[:-1])), labels.dtype)
