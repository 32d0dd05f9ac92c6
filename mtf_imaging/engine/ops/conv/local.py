"""Convolution and its two gradients on one device, for 1, 2 and 3 spatial dimensions.

The convolution operations call these functions on their slices. Tensors are `[batch, spatial..., channels]`, and
filters are `[kernel..., in, out]`.

TensorFlow has no kernels for one spatial dimension, so 1D convolutions get a second dimension of size 1 in front.

TensorFlow's kernels fail for some windows. For these, the taps along one dimension are convolved one at a time. Each
tap is convolved with only the voxels that it reads, so the convolution has stride 1 and no dilation along that
dimension.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import tensorflow as tf

from mtf_imaging.engine.layout.windows import Window


@functools.cache
def has_all_gradients(dtype: tf.DType) -> bool:
    """Returns whether TensorFlow's kernels support dilation and the gradients of groups for a dtype.

    GPU kernels do, except in float64. On CPUs, only oneDNN kernels do. By default, TensorFlow uses oneDNN only on CPUs
    with instructions for neural networks, and oneDNN supports 16-bit dtypes only on some of them. So a small
    convolution is tried.
    """
    if dtype == tf.float64 or tf.config.get_visible_devices("GPU"):
        return dtype != tf.float64
    with tf.init_scope(), tf.device("CPU:0"):
        x = tf.zeros([1, 3, 3, 3, 1], dtype)
        try:
            tf.raw_ops.Conv3DBackpropFilterV2(
                input=x,
                filter_sizes=[2, 2, 2, 1, 1],
                out_backprop=tf.zeros([1, 1, 1, 1, 1], dtype),
                **native([2, 2, 2], [1, 1, 1], "VALID", [2, 2, 2]),
            )
        except tf.errors.InvalidArgumentError:
            return False
    return True


def _around(values: Sequence[int]) -> list[int]:
    return [1, *values, 1]


def _replaced(values: Sequence[int], axis: int, value: int) -> list[int]:
    return [*values[:axis], value, *values[axis + 1 :]]


def _axis_by_tap(
    dtype: tf.DType, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> int | None:
    """Returns the spatial dimension whose taps are convolved one at a time; None if TensorFlow convolves them."""
    for axis, (taps, stride) in enumerate(zip(kernel, strides)):
        # oneDNN's filter gradient (TensorFlow 2.21) corrupts memory for strided kernels of one tap and few channels.
        if taps == 1 and stride > 1:
            return axis
    dilated = [axis for axis, (taps, d) in enumerate(zip(kernel, dilations)) if taps > 1 and d > 1]
    if not has_all_gradients(dtype):
        return dilated[0] if dilated else None
    if len(kernel) == 3 and min(kernel[1:]) > 1 and dilations[1] != dilations[2]:
        # TensorFlow 2.21 infers the shape of Conv3D with the last two dilations swapped.
        return 1 if kernel[1] < kernel[2] else 2
    return None


def _needs_float32(dtype: tf.DType) -> bool:
    """Returns whether a convolution in 16 bits is computed in float32, because TensorFlow's kernel sums in 16 bits."""
    return dtype.size == 2 and not has_all_gradients(dtype)


@dataclasses.dataclass(frozen=True)
class Taps:
    """The taps of a filter along one spatial dimension, one at a time.

    Attributes:
      axis: axis of the dimension in a tensor; in a filter, the axis is one less.
      window: the `Window` of the dimension.
      size: voxels along the dimension, without padding.
      rest: strides, padding and dilations of a convolution with one tap.
    """

    axis: int
    window: Window
    size: int
    rest: tuple[list[int], str, list[int]]

    @classmethod
    def make(
        cls,
        dtype: tf.DType,
        sizes: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: str,
        dilations: Sequence[int],
    ) -> Self | None:
        """Returns the taps that are convolved one at a time, or None if TensorFlow convolves them all."""
        axis = _axis_by_tap(dtype, kernel, strides, dilations)
        return None if axis is None else cls.along(axis, sizes, kernel, strides, padding, dilations)

    @classmethod
    def along(
        cls,
        axis: int,
        sizes: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: str,
        dilations: Sequence[int],
    ) -> Self:
        """Returns the taps along spatial dimension `axis`."""
        window = Window(kernel[axis], strides[axis], dilations[axis], padding)
        rest = _replaced(strides, axis, 1), padding, _replaced(dilations, axis, 1)
        return cls(axis + 1, window, sizes[axis], rest)

    @property
    def numbers(self) -> range:
        return range(self.window.kernel)

    @property
    def outputs(self) -> int:
        return self.window.output_size(self.size)

    def one_tap(self, f: tf.Tensor, tap: int) -> tf.Tensor:
        """Returns the filter with a single tap."""
        return f if self.window.kernel == 1 else tf.split(f, self.window.kernel, self.axis - 1)[tap]

    def _folded(self, shape: Sequence[int]) -> list[int]:
        """Folds all other dimensions of a shape, because TensorFlow copies tensors of three dimensions fastest."""
        return [math.prod(shape[: self.axis]), shape[self.axis], math.prod(shape[self.axis + 1 :])]

    def _unfolded(self, x: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
        """Reshapes `x` to a shape, but keeps its size along the dimension."""
        return tf.reshape(x, _replaced(shape, self.axis, x.shape[1]))

    def padded(self, x: tf.Tensor) -> tf.Tensor:
        """Pads `x` with the zeros that the taps read."""
        before, after = self.window.pads(self.size)
        if not before and not after:
            return x
        shape = x.shape.as_list()
        return self._unfolded(tf.pad(tf.reshape(x, self._folded(shape)), [[0, 0], [before, after], [0, 0]]), shape)

    def unpadded(self, dx: tf.Tensor) -> tf.Tensor:
        """The adjoint of `padded`."""
        before, after = self.window.pads(self.size)
        if not before and not after:
            return dx
        shape = dx.shape.as_list()
        return self._unfolded(tf.reshape(dx, self._folded(shape))[:, before : before + self.size], shape)

    def read(self, x: tf.Tensor, tap: int) -> tf.Tensor:
        """Returns the voxels of a padded `x` that one tap reads, one per output."""
        shape, first, stride = x.shape.as_list(), tap * self.window.dilation, self.window.stride
        x = tf.reshape(x, self._folded(shape))
        if stride == 1:
            x = x[:, first : first + self.outputs]
        else:
            # On a CPU, a strided slice takes ten times as long as a gather.
            x = tf.gather(x, list(range(first, first + self.outputs * stride, stride)), axis=1)
        return self._unfolded(x, shape)

    def spread(self, values: tf.Tensor, tap: int) -> tf.Tensor:
        """The adjoint of `read`: puts values at the voxels that one tap reads, and zeros at all others."""
        shape, first, stride = values.shape.as_list(), tap * self.window.dilation, self.window.stride
        outer, outputs, inner = self._folded(shape)
        size, span = self.size + sum(self.window.pads(self.size)), outputs * stride
        if stride > 1:
            values = tf.pad(tf.reshape(values, [outer * outputs, inner]), [[0, 0], [0, (stride - 1) * inner]])
        values = tf.reshape(values, [outer, span, inner])[:, : size - first]
        values = tf.pad(values, [[0, 0], [first, max(0, size - first - span)], [0, 0]])
        return self._unfolded(values, shape)

    def conv(self, conv: Callable[..., tf.Tensor], x: tf.Tensor, f: tf.Tensor) -> tf.Tensor:
        """Returns the sum of `conv(voxels that a tap reads, tap, strides, padding, dilations)` over all taps."""
        x = self.padded(x)
        return tf.add_n([conv(self.read(x, tap), self.one_tap(f, tap), *self.rest) for tap in self.numbers])

    def conv_input_grad(
        self, grad: Callable[..., tf.Tensor], shape: Sequence[int], f: tf.Tensor, dy: tf.Tensor
    ) -> tf.Tensor:
        """Returns the gradient of `conv` with respect to `x`; `grad` is the gradient for a single tap."""
        read = _replaced(shape, self.axis, self.outputs)
        gradients = [grad(read, self.one_tap(f, tap), dy, *self.rest) for tap in self.numbers]
        return self.unpadded(tf.add_n([self.spread(dx, tap) for tap, dx in enumerate(gradients)]))

    def conv_filter_grad(
        self, grad: Callable[..., tf.Tensor], x: tf.Tensor, shape: Sequence[int], dy: tf.Tensor
    ) -> tf.Tensor:
        """Returns the gradient of `conv` with respect to `f`; `grad` is the gradient for a single tap."""
        x, tap_shape = self.padded(x), _replaced(shape, self.axis - 1, 1)
        gradients = [grad(self.read(x, tap), tap_shape, dy, *self.rest) for tap in self.numbers]
        return tf.concat(gradients, self.axis - 1)


@dataclasses.dataclass(frozen=True)
class ReadRegion:
    """The voxels of `x` that windows read, with explicit padding, where TensorFlow's kernels read other memory.

    For one input channel, a single window along the last dimension and a stride above 1, oneDNN's convolution
    (TensorFlow 2.21) reads other memory than its input. The stride of a single window has no meaning, so `x` is cut to
    the voxels of the window, and the stride becomes 1.

    In bfloat16, oneDNN's filter gradient with padding reads such memory for some small shapes, even with stride 1, and
    so does its convolution if a tap reads padding only. So `x` is padded explicitly.

    Attributes:
      shape: shape of `x`.
      kept: shape of the part of `x` that windows read.
      pads: padding of this part, (before, after) for each dimension.
      rest: strides, padding and dilations of the convolution of the padded part.
    """

    shape: list[int]
    kept: list[int]
    pads: list[tuple[int, int]]
    rest: tuple[list[int], str, Sequence[int]]

    @classmethod
    def make(
        cls,
        shape: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int],
        padding: str,
        dilations: Sequence[int],
        pads_itself: bool = False,
    ) -> Self | None:
        """Returns None if every dimension with a stride has several windows, unless `pads_itself`."""
        windows = [Window(k, s, d, padding) for k, s, d in zip(kernel, strides, dilations, strict=True)]
        single = [w.stride > 1 and w.output_size(n) == 1 for w, n in zip(windows, shape[1:-1], strict=True)]
        if not any(single) and not pads_itself:
            return None
        kept, pads = list(shape), [(0, 0) for _ in shape]
        for axis, (window, is_single) in enumerate(zip(windows, single), 1):
            before, after = window.pads(shape[axis])
            if is_single:
                after = window.extent - before - shape[axis]
            kept[axis], pads[axis] = shape[axis] + min(after, 0), (before, max(after, 0))
        rest = [1 if is_single else w.stride for w, is_single in zip(windows, single)], "VALID", dilations
        return cls(list(shape), kept, pads, rest)

    @property
    def read_shape(self) -> list[int]:
        """The shape of `read`."""
        return [size + sum(pads) for size, pads in zip(self.kept, self.pads)]

    def read(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the voxels that windows read, with padding."""
        x = x if self.kept == self.shape else tf.slice(x, [0] * len(self.kept), self.kept)
        return tf.pad(x, self.pads) if any(map(any, self.pads)) else x

    def spread(self, dx: tf.Tensor) -> tf.Tensor:
        """The adjoint of `read`."""
        dx = tf.slice(dx, [before for before, _ in self.pads], self.kept)
        return tf.pad(dx, [(0, size - kept) for size, kept in zip(self.shape, self.kept)])


def has_idle_tap(sizes: Sequence[int], kernel: Sequence[int], dilations: Sequence[int]) -> bool:
    """Returns whether a tap of a convolution with SAME padding and stride 1 reads padding only."""
    windows = [Window(k, 1, d, "SAME") for k, d in zip(kernel, dilations, strict=True)]
    return any(max(window.pads(n)) >= n for window, n in zip(windows, sizes, strict=True))


def native(kernel: Sequence[int], strides: Sequence[int], padding: str, dilations: Sequence[int]) -> dict[str, Any]:
    """Returns the arguments of TensorFlow's kernels.

    The dilation of a single tap has no effect. It is set to 1, because some kernels refuse any dilation. If a filter
    has a single tap along one of the last two dimensions, both dilations are set to the larger one (see
    `_axis_by_tap`).
    """
    dilations = [1 if taps == 1 else d for taps, d in zip(kernel, dilations, strict=True)]
    if len(kernel) == 3 and min(kernel[1:]) == 1:
        dilations = [dilations[0], *[max(dilations[1:])] * 2]
    return {"strides": _around(strides), "padding": padding, "dilations": _around(dilations)}


def adjoint_filter(f: tf.Tensor) -> tf.Tensor:
    """Returns the filter `[kernel..., out, in]` of the adjoint convolution, for stride 1."""
    spatial = list(range(len(f.shape) - 2))
    return tf.transpose(tf.reverse(f, spatial), [*spatial, len(spatial) + 1, len(spatial)])


def conv(x: tf.Tensor, f: tf.Tensor, strides: Sequence[int], padding: str, dilations: Sequence[int]) -> tf.Tensor:
    """Returns the convolution of `x` with `f`: `[batch, outputs..., out]`."""
    kernel = f.shape.as_list()[:-2]
    if len(kernel) == 1:
        y = conv(tf.expand_dims(x, 1), tf.expand_dims(f, 0), [1, *strides], padding, [1, *dilations])
        return tf.squeeze(y, [1])
    if _needs_float32(x.dtype):
        y = conv(tf.cast(x, tf.float32), tf.cast(f, tf.float32), strides, padding, dilations)
        return tf.cast(y, x.dtype)
    taps = Taps.make(x.dtype, x.shape.as_list()[1:-1], kernel, strides, padding, dilations)
    if taps is not None:
        return taps.conv(conv, x, f)
    fn = tf.raw_ops.Conv2D if len(kernel) == 2 else tf.raw_ops.Conv3D
    return fn(input=x, filter=f, **native(kernel, strides, padding, dilations))


def conv_input_grad(
    shape: Sequence[int], f: tf.Tensor, dy: tf.Tensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
) -> tf.Tensor:
    """Returns the gradient with respect to `x`, of the given shape: the transposed convolution of `dy`."""
    shape, kernel = list(shape), f.shape.as_list()[:-2]
    if len(kernel) == 1:
        f, dy, shape = tf.expand_dims(f, 0), tf.expand_dims(dy, 1), [shape[0], 1, *shape[1:]]
        return tf.squeeze(conv_input_grad(shape, f, dy, [1, *strides], padding, [1, *dilations]), [1])
    if _needs_float32(dy.dtype):
        dx = conv_input_grad(shape, tf.cast(f, tf.float32), tf.cast(dy, tf.float32), strides, padding, dilations)
        return tf.cast(dx, dy.dtype)
    taps = Taps.make(dy.dtype, shape[1:-1], kernel, strides, padding, dilations)
    if taps is not None:
        return taps.conv_input_grad(conv_input_grad, shape, f, dy)
    fn = tf.raw_ops.Conv2DBackpropInput if len(kernel) == 2 else tf.raw_ops.Conv3DBackpropInputV2
    return fn(input_sizes=shape, filter=f, out_backprop=dy, **native(kernel, strides, padding, dilations))


def conv_filter_grad(
    x: tf.Tensor, shape: Sequence[int], dy: tf.Tensor, strides: Sequence[int], padding: str, dilations: Sequence[int]
) -> tf.Tensor:
    """Returns the gradient with respect to the filter, of the given shape, summed over the batch."""
    shape, kernel = list(shape), list(shape[:-2])
    if len(kernel) == 1:
        x, dy = tf.expand_dims(x, 1), tf.expand_dims(dy, 1)
        return tf.squeeze(conv_filter_grad(x, [1, *shape], dy, [1, *strides], padding, [1, *dilations]), [0])
    if _needs_float32(x.dtype):
        df = conv_filter_grad(tf.cast(x, tf.float32), shape, tf.cast(dy, tf.float32), strides, padding, dilations)
        return tf.cast(df, x.dtype)
    taps = Taps.make(x.dtype, x.shape.as_list()[1:-1], kernel, strides, padding, dilations)
    if taps is not None:
        return taps.conv_filter_grad(conv_filter_grad, x, shape, dy)
    fn = tf.raw_ops.Conv2DBackpropFilter if len(kernel) == 2 else tf.raw_ops.Conv3DBackpropFilterV2
    return fn(input=x, filter_sizes=shape, out_backprop=dy, **native(kernel, strides, padding, dilations))
