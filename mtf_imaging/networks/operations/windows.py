"""Convolutions and pools. Every dimension may be split."""

from collections.abc import Sequence

import numpy as np

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.networks.array import Array, Axis, free_name
from mtf_imaging.networks.operations.products import einsum
from mtf_imaging.networks.operations.registry import Call, operation, spatial_axes
from mtf_imaging.networks.values import Interleaved, Value, named, reshaped, sizes_of, transposed

_KERNEL = ("kernel_x", "kernel_y", "kernel_z")
_FILTERS, _GROUP = "filters", "kernel_in"

Padding = str | list[tuple[int, int]]


class _Image:
    """The input of a window operation, with channels last.

    Args:
      call: the node.
      x: the input.
      kernel: the sizes of the windows along all spatial axes.
      keeps: whether axes of size 1 are kept. Otherwise, TensorFlow's 2D convolution of a line becomes a 1D one.

    Attributes:
      x: the input as Array[batch, spatial..., channels], with one dimension for each axis but the batch.
      used: the positions of the spatial axes that are kept.
    """

    def __init__(self, call: Call, x: Array, kernel: Sequence[int], keeps: bool = False) -> None:
        rank = len(x.sizes)
        self._spatial, self._channels = spatial_axes(call, rank)
        self._order = [0, *self._spatial, self._channels]
        x = transposed(x, self._order)  # type: ignore[assignment]
        self.used = [i for i, n in enumerate(kernel) if keeps or not (n == 1 and x.sizes[i + 1] == 1)]
        self._dropped = [i + 1 for i in range(len(kernel)) if i not in self.used]
        x = Array(x.tensor, [axis for i, axis in enumerate(x.axes) if i not in self._dropped]).without_loose()
        self.x = x.single(*range(1, len(x.axes)), name="axis")
        if not self.x.present(0):
            self.x = self.x.single(0, name="batch")
        if not self.x.is_whole(0):
            self.x = Array(self.x.laid(), self.x.axes)

    def setting(self, call: Call, name: str) -> list[int]:
        """Returns a setting of the node with a number for each axis, for the spatial axes that are kept."""
        values = call.get(name) or [1] * len(self._order)
        return [int(values[self._spatial[i]]) for i in self.used]

    def padding(self, call: Call) -> Padding:
        """Returns the padding, as operations here take it."""
        name = call.get("padding")
        if name != "EXPLICIT":
            return str(name)
        pairs = np.reshape(call.get("explicit_paddings"), [-1, 2])
        return [(int(a), int(b)) for a, b in (pairs[self._spatial[i]] for i in self.used)]

    def restored(self, y: mtf.Tensor, batch: Axis) -> Array:
        """Returns a result with all axes of the input, in its order."""
        axes: list[Axis] = [batch, *((dim,) for dim in y.shape.dims[len(batch) :])]
        for i in self._dropped:
            axes.insert(i, ())
        return transposed(Array(y, axes), [int(i) for i in np.argsort(self._order)])  # type: ignore[return-value]


def _kernel_axes(image: _Image, window: Sequence[int]) -> list[Axis]:
    return [(mtf.Dimension(_KERNEL[i], n),) if i in image.used else () for i, n in enumerate(window)]


def _with_name(y: mtf.Tensor, name: str) -> mtf.Tensor:
    """Gives the channels of a result the name that those of the input have."""
    old = y.shape.dims[-1].name
    return y if old == name else mtf.rename_dimension(y, old, free_name(name, {*y.shape.dimension_names} - {old}))


@operation("Conv2D", "Conv3D", ours="mi.ops.conv3d")
def _conv(call: Call, x: Array | Interleaved, kernel: Value) -> Array | Interleaved:
    return _dilatable(call, x, kernel, None)


@operation("DepthwiseConv2dNative", ours="mi.ops.conv2d with groups")
def _depthwise(call: Call, x: Array | Interleaved, kernel: Value) -> Array | Interleaved:
    *window, channels, multiplier = sizes_of(kernel)
    return _dilatable(call, x, reshaped(kernel, [*window, 1, channels * multiplier]), channels)


def _dilatable(call: Call, x: Array | Interleaved, kernel: Value, groups: int | None) -> Array | Interleaved:
    """Returns a convolution, which BatchToSpaceND may still turn into a dilated one."""

    def convolve(x: Array, dilations: list[int] | None, pads: list[tuple[int, int]] | None) -> Array:
        return _convolved(call, x, kernel, groups, dilations, pads)

    if isinstance(x, Array):
        return convolve(x, None, None)
    is_plain = call.get("padding") == "VALID" and {*call.get("strides"), *(call.get("dilations") or [1])} == {1}
    if is_plain and x.convolve is None and len(x.blocks) <= len(sizes_of(kernel)) - 2:
        return Interleaved(x.x, x.blocks, x.pads, x.split, convolve)
    return convolve(x.array, None, None)


def _convolved(
    call: Call,
    x: Array,
    kernel: Value,
    groups: int | None,
    dilations: list[int] | None,
    pads: list[tuple[int, int]] | None,
) -> Array:
    """Returns a convolution; with `dilations` and `pads` for the first spatial axes instead of those of the node."""
    *window, into, out = sizes_of(kernel)
    groups = groups or x.sizes[spatial_axes(call, len(x.sizes))[1]] // into
    image = _Image(call, x, window, keeps=groups > 1 or dilations is not None)
    channels = image.x.axes[-1][0]
    inner = mtf.Dimension(_GROUP if groups > 1 else channels.name, into)
    filters = mtf.Dimension(free_name(_FILTERS, {inner.name}), out)
    weights = named(call.mesh, kernel, [*_kernel_axes(image, window), (inner,), (filters,)])
    if not image.used:
        y = einsum(call, [image.x, Array(weights.laid(), [(inner,), (filters,)])], ["bi", "io"], "bo").laid()
        return image.restored(_with_name(y, channels.name), image.x.axes[0])
    more = len(image.used) - len(dilations or [])
    y = getattr(ops, f"conv{len(image.used)}d")(
        image.x.laid(),
        weights.laid(),
        strides=image.setting(call, "strides"),
        padding=[*pads, *[(0, 0)] * more] if pads else image.padding(call),
        dilations=[*dilations, *[1] * more] if dilations else image.setting(call, "dilations"),
        **({"groups": groups} if groups > 1 else {}),
    )
    return image.restored(_with_name(y, channels.name), image.x.axes[0])


@operation("Conv2DBackpropInput", "Conv3DBackpropInputV2", ours="mi.ops.conv3d_transpose")
def _conv_transpose(call: Call, sizes: Value, kernel: Value, x: Array) -> Array:
    *window, out, into = sizes_of(kernel)
    wanted = call.ints(sizes, "sizes")
    spatial, at = spatial_axes(call, len(x.sizes))
    if x.sizes[at] != into or (len(wanted) == len(x.sizes) and wanted[at] != out):
        raise call.refuse("has groups", "use a transposed convolution for each group, and concatenate")
    outputs = [wanted[i] for i in spatial] if len(wanted) == len(x.sizes) else wanted
    image = _Image(call, x, [max(n, size) for n, size in zip(window, outputs)])
    channels = image.x.axes[-1][0]
    filters = mtf.Dimension(free_name(_FILTERS, {channels.name}), out)
    weights = named(call.mesh, kernel, [*_kernel_axes(image, window), (filters,), (channels,)])
    y = getattr(ops, f"conv{len(image.used)}d_transpose")(
        image.x.laid(),
        weights.laid(),
        strides=image.setting(call, "strides"),
        padding=image.padding(call),
        output_sizes=[outputs[i] for i in image.used],
        dilations=image.setting(call, "dilations"),
    )
    return image.restored(_with_name(y, channels.name), image.x.axes[0])


@operation("AvgPool", "AvgPool3D", ours="mi.ops.avg_pool3d")
@operation("MaxPool", "MaxPool3D", ours="mi.ops.max_pool3d")
def _pooled(call: Call, x: Array) -> Array:
    spatial, at = spatial_axes(call, len(x.sizes))
    ksize, kind = call.get("ksize"), call.node.operation[:3].lower()
    if ksize[0] > 1 or ksize[at] > 1:
        raise call.refuse(f"pools the batch or the channels with windows {ksize}", "reshape, and reduce an axis")
    image = _Image(call, x, [ksize[i] for i in spatial])
    if not image.used:
        return x
    y = getattr(ops, f"{kind}_pool{len(image.used)}d")(
        image.x.laid(),
        image.setting(call, "ksize"),
        strides=image.setting(call, "strides"),
        padding=image.padding(call),
    )
    return image.restored(y, image.x.axes[0])
