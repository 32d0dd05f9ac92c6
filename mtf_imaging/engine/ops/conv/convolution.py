"""Convolutions and transposed convolutions: the public functions."""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.conv.group_split import check_groups
from mtf_imaging.engine.ops.conv.operations import Conv, ConvInputGrad
from mtf_imaging.engine.ops.window_op import Ints, Padding, make_geometry, make_windows, per_dimension
from mtf_imaging.errors import ShapeError


def _check_filter(
    title: str, x: mtf.Tensor, f: mtf.Tensor, num_spatial: int, channels_at: int, groups: int = 1
) -> None:
    """Checks the rank, the dtype and the input channels (dimension `channels_at`, -2 or -1) of a filter."""
    if len(f.shape.dims) != num_spatial + 2:
        raise ShapeError(
            f"{title}: the filter must have {num_spatial + 2} dimensions, but it has {len(f.shape.dims)}: {f.shape}"
        )
    want, have = x.shape.dims[-1], f.shape.dims[channels_at]
    if groups != 1 or type(groups) is not int:
        check_groups(title, groups, want, *f.shape.dims[-2:])
    elif want != have:
        raise ShapeError(
            f"{title}: the filter's dimension {channels_at}, '{have.name}' (size {have.size}), must have the name and "
            f"the size of the input's channels, '{want.name}' (size {want.size})"
        )
    if x.dtype != f.dtype:
        raise ShapeError(
            f"{title}: the input is {x.dtype.name}, but the filter is {f.dtype.name}. Fix: cast one of them."
        )


def _conv(
    num_spatial: int,
    x: mtf.Tensor,
    f: mtf.Tensor,
    strides: Ints,
    padding: Padding,
    dilations: Ints,
    groups: int,
    name: str | None,
) -> mtf.Tensor:
    kind = f"conv{num_spatial}d"
    title = f"{kind} '{name or kind}'"
    _check_filter(title, x, f, num_spatial, -2, groups)
    kernel = [d.size for d in f.shape.dims[:num_spatial]]
    geometry = make_geometry(title, x, num_spatial, kernel, strides, dilations, padding)
    return Conv(kind, x, f, geometry, name).outputs[0]


def _conv_transpose(
    num_spatial: int,
    x: mtf.Tensor,
    f: mtf.Tensor,
    strides: Ints,
    padding: Padding,
    output_sizes: Ints | None,
    dilations: Ints,
    name: str | None,
) -> mtf.Tensor:
    kind = f"conv{num_spatial}d_transpose"
    title = f"{kind} '{name or kind}'"
    _check_filter(title, x, f, num_spatial, -1)
    kernel = [d.size for d in f.shape.dims[:num_spatial]]
    probe = make_geometry(title, x, num_spatial, 1, 1, 1, "SAME")
    windows = make_windows(title, num_spatial, kernel, strides, dilations, padding)
    if output_sizes is None:
        output_sizes = [w.transposed_size(n) for w, n in zip(windows, probe.sizes)]
        for name_, size, n, window in zip(probe.names, output_sizes, probe.sizes, windows):
            if size <= window.cropped:
                raise ShapeError(
                    f"{title}: padding {window.padding} leaves no voxel of the output '{name_}', which has {n} windows "
                    f"of {window.extent} voxels. Fix: use less padding."
                )
    sizes = per_dimension(title, "output_sizes", output_sizes, num_spatial)
    geometry = make_geometry(title, x, num_spatial, kernel, strides, dilations, padding, sizes)
    for name_, size, n, made in zip(geometry.names, sizes, probe.sizes, geometry.outputs):
        if n != made:
            raise ShapeError(
                f"{title}: an output '{name_}' of size {size} has {made} windows, but the input has size {n}. "
                "Fix: change output_sizes, or leave it out."
            )
    return ConvInputGrad(kind, x, f, geometry, f.shape.dims[-2], name or kind).outputs[0]


def conv1d(
    x: mtf.Tensor,
    filter: mtf.Tensor,
    strides: Ints = 1,
    padding: Padding = "SAME",
    dilations: Ints = 1,
    name: str | None = None,
) -> mtf.Tensor:
    """Computes a 1D convolution, like `tf.nn.conv1d` on the whole tensor.

    Args:
      x: Tensor[batch..., x, in]
      filter: Tensor[fx, in, out]. `in` is the channel dimension of `x`, with the same name and size.
      strides, padding, dilations, name: see `conv3d`.

    Returns:
      Tensor[batch..., x', out]. The spatial dimension keeps its name; the channels are the filter's `out`.
    """
    return _conv(1, x, filter, strides, padding, dilations, 1, name)


def conv2d(
    x: mtf.Tensor,
    filter: mtf.Tensor,
    strides: Ints = 1,
    padding: Padding = "SAME",
    dilations: Ints = 1,
    groups: int = 1,
    name: str | None = None,
) -> mtf.Tensor:
    """Computes a 2D convolution, like `tf.nn.conv2d` on the whole tensor.

    Args:
      x: Tensor[batch..., x, y, in]
      filter: Tensor[fx, fy, in, out]. `in` is the channel dimension of `x`, with the same name and size. With groups,
        it is Tensor[fx, fy, in / groups, out].
      strides, padding, dilations, groups, name: see `conv3d`.

    Returns:
      Tensor[batch..., x', y', out]. Spatial dimensions keep their names; the channels are the filter's `out`.
    """
    return _conv(2, x, filter, strides, padding, dilations, groups, name)


def conv3d(
    x: mtf.Tensor,
    filter: mtf.Tensor,
    strides: Ints = 1,
    padding: Padding = "SAME",
    dilations: Ints = 1,
    groups: int = 1,
    name: str | None = None,
) -> mtf.Tensor:
    """Computes a 3D convolution, like `tf.nn.conv3d` on the whole tensor.

    `y[batch..., x', y', z', out] = sum over taps (i, j, k) and in of x[batch..., s x' + d i - p, s y' + d j - p,
    s z' + d k - p, in] filter[i, j, k, in, out]`

    In each spatial dimension, `s` is the stride, `d` is the dilation, and `p` is the number of zeros before the first
    voxel.

    Every dimension may be split, except the kernel dimensions of the filter. Processors exchange halos along split
    spatial dimensions, and sum their results if `in` is split. With n voxels in the input and o voxels in the output,
    slices have ceil(n / N) and ceil(o / N) voxels over N processors. Halos are smallest if an input slice has `s` times
    as many voxels as an output slice. Otherwise they grow with the index of the processor.

    With groups, an output channel o is computed from the `in / groups` input channels of group `o // (out / groups)`,
    as in `tf.nn.conv2d`. The convolution is depthwise if `groups` is the size of `in`. The dimensions `in` and `out`
    may be split. Each processor computes ceil(groups / N) whole groups:

    - If the same mesh dimension splits both, no channels are sent.
    - If only `out` is split, the backward pass gathers the gradient of `x`.
    - If only `in` is split, the forward pass gathers the output, and the backward pass gathers the gradient of the
      filter.
    - If two mesh dimensions split them, both passes gather `x` with its halos, and the backward pass gathers the
      gradient of `x`.
    - If slices of channels cut groups, because N does not divide `groups`, these channels are gathered as well.

    Args:
      x: Tensor[batch..., x, y, z, in]
      filter: Tensor[fx, fy, fz, in, out]. `in` is the channel dimension of `x`, with the same name and size. With
        groups, it is Tensor[fx, fy, fz, in / groups, out]. The dimension `in / groups` has a name of its own, which the
        layout must not split. `out` may have the name of `in`.
      strides: an int, or one for each spatial dimension.
      padding: "SAME" or "VALID", as in TensorFlow, or a pair (before, after) for each spatial dimension: the number of
        zeros on both sides. Negative numbers crop.
      dilations: an int, or one for each spatial dimension.
      groups: number of groups, which divides the sizes of `in` and `out`.
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', z', out]. Spatial dimensions keep their names; the channels are the filter's `out`.

    Raises:
      ShapeError: the shapes or dtypes of the input, the filter and the settings do not fit.
    """
    return _conv(3, x, filter, strides, padding, dilations, groups, name)


def conv1d_transpose(
    x: mtf.Tensor,
    filter: mtf.Tensor,
    strides: Ints,
    padding: Padding = "SAME",
    output_sizes: Ints | None = None,
    dilations: Ints = 1,
    name: str | None = None,
) -> mtf.Tensor:
    """Computes a 1D transposed convolution, like `tf.nn.conv1d_transpose` on the whole tensor.

    Args:
      x: Tensor[batch..., x, in]
      filter: Tensor[fx, out, in]. `in` is the channel dimension of `x`, with the same name and size.
      strides, padding, output_sizes, dilations, name: see `conv3d_transpose`.

    Returns:
      Tensor[batch..., x', out]. The spatial dimension keeps its name; the channels are the filter's `out`.
    """
    return _conv_transpose(1, x, filter, strides, padding, output_sizes, dilations, name)


def conv2d_transpose(
    x: mtf.Tensor,
    filter: mtf.Tensor,
    strides: Ints,
    padding: Padding = "SAME",
    output_sizes: Ints | None = None,
    dilations: Ints = 1,
    name: str | None = None,
) -> mtf.Tensor:
    """Computes a 2D transposed convolution, like `tf.nn.conv2d_transpose` on the whole tensor.

    Args:
      x: Tensor[batch..., x, y, in]
      filter: Tensor[fx, fy, out, in]. `in` is the channel dimension of `x`, with the same name and size.
      strides, padding, output_sizes, dilations, name: see `conv3d_transpose`.

    Returns:
      Tensor[batch..., x', y', out]. Spatial dimensions keep their names; the channels are the filter's `out`.
    """
    return _conv_transpose(2, x, filter, strides, padding, output_sizes, dilations, name)


def conv3d_transpose(
    x: mtf.Tensor,
    filter: mtf.Tensor,
    strides: Ints,
    padding: Padding = "SAME",
    output_sizes: Ints | None = None,
    dilations: Ints = 1,
    name: str | None = None,
) -> mtf.Tensor:
    """Computes a 3D transposed convolution, like `tf.nn.conv3d_transpose` on the whole tensor.

    It is the adjoint of `conv3d` with the same filter and the same settings. The same dimensions may be split.

    Args:
      x: Tensor[batch..., x, y, z, in]
      filter: Tensor[fx, fy, fz, out, in]. `in` is the channel dimension of `x`, with the same name and size.
      strides: an int, or one for each spatial dimension.
      padding: "SAME", "VALID", or a pair (before, after) for each spatial dimension, as in `conv3d`: padding removes
        voxels of the output, and negative numbers add zeros.
      output_sizes: sizes of x', y' and z'. The default for n voxels, a stride s and a window of K voxels is `n s` with
        "SAME", `n s + max(K - s, 0)` with "VALID", and `(n - 1) s + K - before - after` with pairs. K is
        `(kernel - 1) dilation + 1`.
      dilations: an int, or one for each spatial dimension.
      name: name of the operation.

    Returns:
      Tensor[batch..., x', y', z', out]. Spatial dimensions keep their names; the channels are the filter's `out`.

    Raises:
      ShapeError: the shapes or dtypes of the input, the filter and the settings do not fit.
    """
    return _conv_transpose(3, x, filter, strides, padding, output_sizes, dilations, name)
