"""Max and average pools: the public functions."""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.inputs import check_tensor
from mtf_imaging.engine.ops.pool.operations import AvgPool, MaxPool
from mtf_imaging.engine.ops.precision import master_dtype
from mtf_imaging.engine.ops.window_op import Ints, Padding, make_geometry
from mtf_imaging.errors import ShapeError


def _pool(
    operation: type[MaxPool] | type[AvgPool],
    kind: str,
    x: mtf.Tensor,
    ksize: Ints,
    strides: Ints,
    padding: Padding,
    name: str | None,
) -> mtf.Tensor:
    num_spatial = int(kind[-2])
    title = f"{kind} '{name or kind}'"
    geometry = make_geometry(title, x, num_spatial, ksize, strides, 1, padding, pads_itself=True)
    for dim, size, window in zip(geometry.names, geometry.sizes, geometry.windows):
        if max(window.explicit) >= window.extent:
            raise ShapeError(
                f"{title}: with padding {window.padding}, a window of {window.extent} voxels at the border of '{dim}' "
                f"(size {size}) contains no voxel. Fix: use a padding of at most {window.extent - 1}."
            )
    return operation(kind, x, geometry, name).outputs[0]


def max_pool1d(
    x: mtf.Tensor, ksize: Ints, strides: Ints, padding: Padding = "VALID", name: str | None = None
) -> mtf.Tensor:
    """Computes a 1D max pool, like `tf.nn.max_pool1d` on the whole tensor.

    Args:
      x: Tensor[batch..., x, channels]
      ksize, strides, padding, name: see `max_pool3d`.

    Returns:
      Tensor[batch..., x', channels]. The spatial dimension keeps its name.
    """
    return _pool(MaxPool, "max_pool1d", x, ksize, strides, padding, name)


def max_pool2d(
    x: mtf.Tensor, ksize: Ints, strides: Ints, padding: Padding = "VALID", name: str | None = None
) -> mtf.Tensor:
    """Computes a 2D max pool, like `tf.nn.max_pool2d` on the whole tensor.

    `max_pool3d` gives the formula and the dimensions that may be split.

    Args:
      x: Tensor[batch..., x, y, channels]
      ksize: size of the window in voxels: an int, or one for each spatial dimension.
      strides: an int, or one for each spatial dimension.
      padding: "SAME", "VALID", or a pair (before, after) for each spatial dimension. Negative numbers crop.
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', channels]. Dimensions keep their names.

    Raises:
      ShapeError: the shape of the input and the window do not fit.
    """
    return _pool(MaxPool, "max_pool2d", x, ksize, strides, padding, name)


def max_pool3d(
    x: mtf.Tensor, ksize: Ints, strides: Ints, padding: Padding = "VALID", name: str | None = None
) -> mtf.Tensor:
    """Computes a 3D max pool, like `tf.nn.max_pool3d` on the whole tensor.

    `y[batch..., x', y', z', channels] = max over taps (i, j, k) of x[batch..., s x' + i - p, s y' + j - p,
    s z' + k - p, channels]`

    In each spatial dimension, `s` is the stride, and `p` is the padding before the first voxel. The gradient of a
    window goes to the first of its largest voxels.

    Windows may overlap, and every dimension may be split.

    Args:
      x: Tensor[batch..., x, y, z, channels]
      ksize: size of the window in voxels: an int, or one for each spatial dimension.
      strides: an int, or one for each spatial dimension.
      padding: "SAME", "VALID", or a pair (before, after) for each spatial dimension. Negative numbers crop.
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', z', channels]. Dimensions keep their names.

    Raises:
      ShapeError: the shape of the input and the window do not fit.
    """
    return _pool(MaxPool, "max_pool3d", x, ksize, strides, padding, name)


def avg_pool1d(
    x: mtf.Tensor, ksize: Ints, strides: Ints, padding: Padding = "VALID", name: str | None = None
) -> mtf.Tensor:
    """Computes a 1D average pool, like `tf.nn.avg_pool1d` on the whole tensor.

    Args:
      x: Tensor[batch..., x, channels]
      ksize, strides, padding, name: see `avg_pool3d`.

    Returns:
      Tensor[batch..., x', channels]. The spatial dimension keeps its name.
    """
    return _pool(AvgPool, "avg_pool1d", x, ksize, strides, padding, name)


def avg_pool2d(
    x: mtf.Tensor, ksize: Ints, strides: Ints, padding: Padding = "VALID", name: str | None = None
) -> mtf.Tensor:
    """Computes a 2D average pool, like `tf.nn.avg_pool2d` on the whole tensor.

    The mean of a window does not include voxels beyond the border. The same dimensions may be split as in `max_pool3d`.

    Args:
      x: Tensor[batch..., x, y, channels]
      ksize: size of the window in voxels: an int, or one for each spatial dimension.
      strides: an int, or one for each spatial dimension.
      padding: "SAME", "VALID", or a pair (before, after) for each spatial dimension. Negative numbers crop.
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', channels]. Dimensions keep their names.

    Raises:
      ShapeError: the shape of the input and the window do not fit.
    """
    return _pool(AvgPool, "avg_pool2d", x, ksize, strides, padding, name)


def avg_pool3d(
    x: mtf.Tensor, ksize: Ints, strides: Ints, padding: Padding = "VALID", name: str | None = None
) -> mtf.Tensor:
    """Computes a 3D average pool, like `tf.nn.avg_pool3d` on the whole tensor.

    The mean of a window does not include voxels beyond the border. The same dimensions may be split as in `max_pool3d`.

    Args:
      x: Tensor[batch..., x, y, z, channels]
      ksize: size of the window in voxels: an int, or one for each spatial dimension.
      strides: an int, or one for each spatial dimension.
      padding: "SAME", "VALID", or a pair (before, after) for each spatial dimension. Negative numbers crop.
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', z', channels]. Dimensions keep their names.

    Raises:
      ShapeError: the shape of the input and the window do not fit.
    """
    return _pool(AvgPool, "avg_pool3d", x, ksize, strides, padding, name)


def global_avg_pool(x: mtf.Tensor, name: str | None = None) -> mtf.Tensor:
    """Computes the mean of each channel over all spatial dimensions, like `keras.layers.GlobalAveragePooling3D`.

    Every dimension may be split. Processors exchange one sum per channel.

    Args:
      x: Tensor[batch, spatial..., channels]
      name: name of the operation.

    Returns:
      Tensor[batch, channels], float32 or larger.

    Raises:
      ShapeError: `x` has no spatial dimension.
    """
    check_tensor(f"global_avg_pool '{name or 'global_avg_pool'}'", x)
    if len(x.shape.dims) < 3:
        raise ShapeError(
            f"global_avg_pool '{name or 'global_avg_pool'}' needs at least 3 dimensions (batch, a spatial one, "
            f"channels), but its input has {len(x.shape.dims)}: {x.shape}"
        )
    batch, *_, channels = x.shape.dims
    wide = mtf.cast(x, master_dtype(x.dtype))
    return mtf.reduce_mean(wide, output_shape=mtf.Shape([batch, channels]), name=name or "global_avg_pool")
