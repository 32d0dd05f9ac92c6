"""Deep supervision: what the coarser levels of the decoder are to find, and how much it weighs."""

import mtf_imaging as mi


def level_weights(number):
    """Weights of the losses of `number` levels, from the finest on: `1, 1/2, 1/4, ...`, divided by their sum.

    Those are nnU-Net's (Isensee et al. 2021, `nnUNetTrainer._build_loss`), which takes the lowest level of its decoder
    for none of them.

    >>> level_weights(2)
    [0.6666666666666666, 0.3333333333333333]
    """
    weights = [0.5**level for level in range(number)]
    return [weight / sum(weights) for weight in weights]


def labels_of_level(labels, logits, level):
    """The labels of every `2^level`-th voxel along each axis, from the first on: `y[b, i, j, k] = x[b, n i, n j, n k]`.

    Args:
      labels: int32 Tensor[batch, x, y, z]
      logits: Tensor[batch, x / n, y / n, z / n, classes], of which some axes may be gathered (`mi.ops.gather_slices`).
      level: 0 for the labels as they are.

    Returns:
      int32 Tensor[batch, x / n, y / n, z / n], with the axes of the logits.
    """
    if not level:
        return labels
    early, late = [], []  # Gathered late, less is sent; but sampling makes no slices of half a voxel.
    for dim, now in zip(labels.shape.dims[1:], logits.shape.dims[1:-1]):
        if dim.name != now.name:
            (early if now.size % mi.ops.slices_per_dimension(labels)[dim.name] else late).append(dim.name)
    # A pool is what takes every n-th voxel under any layout; it wants numbers with channels, of a name that is split
    # by none.
    x = mi.mtf.cast(labels, logits.dtype)
    x = mi.mtf.reshape(x, mi.mtf.Shape([*labels.shape.dims, mi.mtf.Dimension("label", 1)]))
    x = mi.ops.gather_slices(x, early, f"labels{level}_gather")
    x = mi.ops.max_pool3d(x, 1, 2**level, name=f"labels{level}")
    x = mi.ops.gather_slices(x, late, f"labels{level}_gather")
    return mi.mtf.cast(mi.mtf.reshape(x, mi.mtf.Shape(x.shape.dims[:-1])), labels.dtype)
