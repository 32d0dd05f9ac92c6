"""Linear, nearest and repeating resizing of 1, 2 or 3 spatial dimensions by any ratio. Any dimension may be split."""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.resize.interpolation import METHODS, Interpolation
from mtf_imaging.engine.ops.resize.operations import resample
from mtf_imaging.engine.ops.window_op import Ints, per_dimension
from mtf_imaging.errors import ShapeError


def _resize(
    num_spatial: int, x: mtf.Tensor, sizes: Ints, method: str, align_corners: bool, name: str | None
) -> mtf.Tensor:
    kind = f"resize{num_spatial}d"
    title = f"{kind} '{name or kind}'"
    dims = x.shape.dims
    if len(dims) < num_spatial + 2:
        raise ShapeError(
            f"{title} needs at least {num_spatial + 2} dimensions (batch, {num_spatial} spatial dimensions, channels), "
            f"but its input has {len(dims)}: {x.shape}"
        )
    if method not in METHODS:
        raise ShapeError(f"{title}: method must be 'linear', 'nearest' or 'repeat', not {method!r}")
    if method == "repeat" and align_corners:
        raise ShapeError(f"{title}: method 'repeat' has no align_corners. Fix: drop align_corners, or use 'nearest'.")
    if method == "linear" and not x.dtype.is_floating:
        raise ShapeError(
            f"{title}: method 'linear' needs a floating-point input, but the input is {x.dtype.name}. "
            "Fix: use method='nearest', or cast the input."
        )
    sizes = per_dimension(title, "sizes", sizes, num_spatial)
    if min(sizes) < 1:
        raise ShapeError(f"{title}: sizes must be at least 1, not {sizes}")
    lines = [
        Interpolation(dim.size, size, method, bool(align_corners))
        for dim, size in zip(dims[-1 - num_spatial : -1], sizes)
    ]
    return resample(kind, x, lines, name)


def resize1d(
    x: mtf.Tensor, sizes: Ints, method: str = "linear", align_corners: bool = False, name: str | None = None
) -> mtf.Tensor:
    """Resizes 1 spatial dimension, like `tf.image.resize(..., antialias=False)` resizes 2.

    Args:
      x: Tensor[batch..., x, channels]
      sizes: voxels of x': an int, or a sequence of one int.
      method, align_corners, name: see `resize3d`.

    Returns:
      Tensor[batch..., x', channels] of the same dtype. Dimensions keep their names.
    """
    return _resize(1, x, sizes, method, align_corners, name)


def resize2d(
    x: mtf.Tensor, sizes: Ints, method: str = "linear", align_corners: bool = False, name: str | None = None
) -> mtf.Tensor:
    """Resizes 2 spatial dimensions, like `tf.image.resize(x, sizes, antialias=False)` on the whole tensor.

    With `align_corners`, it is like `tf.compat.v1.image.resize(x, sizes, method, align_corners=True)`. `resize3d` gives
    the formulas and the dimensions that may be split.

    Args:
      x: Tensor[batch..., x, y, channels]
      sizes: voxels of x' and y': an int, or one for each spatial dimension.
      method: "linear", "nearest" or "repeat".
      align_corners: whether to keep the centers of the border voxels instead of their borders; see `resize3d`.
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', channels] of the same dtype. Dimensions keep their names.

    Raises:
      ShapeError: the shape or the dtype of the input does not fit the sizes or the method.
    """
    return _resize(2, x, sizes, method, align_corners, name)


def resize3d(
    x: mtf.Tensor, sizes: Ints, method: str = "linear", align_corners: bool = False, name: str | None = None
) -> mtf.Tensor:
    """Resizes 3 spatial dimensions, like `tf.image.resize(..., antialias=False)` resizes 2.

    `y[batch..., x', y', z', channels] = sum over x, y, z of wx[x', x] wy[y', y] wz[z', z] x[batch..., x, y, z,
    channels]`

    Voxels are cells with their centers at halves, so the borders of the volume do not move. The center of output i of o
    lies at `(i + 1/2) n / o - 1/2`, in voxels of an input of n. With `align_corners`, the centers of the border voxels
    do not move: the center of output i lies at `i (n - 1) / (o - 1)`, or at 0 if o is 1.

    The method "linear" weights the two voxels around each new center, and needs a floating-point dtype. The method
    "nearest" copies the voxel that contains the center, and takes any dtype. The method "repeat" takes any dtype as
    well: it copies every voxel `r = ceil(o / n)` times and cuts off the end, so output i is voxel `floor(i / r)`. It
    equals "nearest" if n divides o.

    Every dimension may be split. If the number of slices divides both sizes of a dimension, a slice needs at most one
    voxel of each neighbor. With other sizes or `align_corners`, it may need more, because the centers move relative to
    the slices.

    Args:
      x: Tensor[batch..., x, y, z, channels]
      sizes: voxels of x', y' and z': an int, or one for each spatial dimension.
      method: "linear", "nearest" or "repeat".
      align_corners: whether to keep the centers of the border voxels instead of their borders.
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', z', channels] of the same dtype. Dimensions keep their names.

    Raises:
      ShapeError: the shape or the dtype of the input does not fit the sizes or the method.
    """
    return _resize(3, x, sizes, method, align_corners, name)
