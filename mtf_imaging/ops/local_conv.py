"""Convolution and its two adjoints on one device, for 2 and 3 spatial dimensions: what conv ops call on their slices.

All take `[batch, spatial..., channels]`, filters `[kernel..., in, out]`.

TensorFlow's kernels fail for some windows. There the taps along one dimension are convolved one at a time: each with
the voxels that it reads, which a strided slice takes, so with stride 1 and no dilation along that dimension.
"""

import dataclasses
import math

import tensorflow as tf

from mtf_imaging.windows import Window

# TensorFlow's CPU kernels dilate in these types only (oneDNN).
_DILATING = (tf.float32, tf.bfloat16, tf.float16)


def _around(values):
    return [1, *values, 1]


def _replaced(values, axis, value):
    return [*values[:axis], value, *values[axis + 1 :]]


def _axis_by_tap(dtype, kernel, strides, dilations):
    """The spatial dimension whose taps are convolved one at a time, or None where TensorFlow takes all at once."""
    for axis, (taps, stride) in enumerate(zip(kernel, strides)):
        # oneDNN's filter gradient (TensorFlow 2.21) corrupts memory for strided kernels of one tap and few channels.
        if taps == 1 and stride > 1:
            return axis
    dilated = [axis for axis, (taps, d) in enumerate(zip(kernel, dilations)) if taps > 1 and d > 1]
    if dtype not in _DILATING:
        return dilated[0] if dilated else None
    if len(kernel) == 3 and min(kernel[1:]) > 1 and dilations[1] != dilations[2]:
        # TensorFlow 2.21 infers the shape of Conv3D with the last two dilations swapped.
        return 1 if kernel[1] < kernel[2] else 2
    return None


@dataclasses.dataclass(frozen=True)
class _Taps:
    """The taps of a filter along one spatial dimension, one at a time.

    Attributes:
      axis: number of the dimension in a tensor (in a filter it is one less).
      window: its `Window`.
      size: voxels along it, without padding.
      rest: strides, padding and dilations of a convolution with one of the taps.
    """

    axis: int
    window: Window
    size: int
    rest: tuple

    @classmethod
    def make(cls, dtype, sizes, kernel, strides, padding, dilations):
        """The taps that are convolved one at a time, or None where TensorFlow takes all at once."""
        axis = _axis_by_tap(dtype, kernel, strides, dilations)
        if axis is None:
            return None
        window = Window(kernel[axis], strides[axis], dilations[axis], padding)
        rest = _replaced(strides, axis, 1), padding, _replaced(dilations, axis, 1)
        return cls(axis + 1, window, sizes[axis], rest)

    @property
    def numbers(self):
        return range(self.window.kernel)

    @property
    def outputs(self):
        return self.window.output_size(self.size)

    def of_filter(self, f, tap):
        """The filter with one tap alone."""
        return f if self.window.kernel == 1 else tf.split(f, self.window.kernel, self.axis - 1)[tap]

    def _folded(self, shape):
        """A shape with all other dimensions folded: TensorFlow copies three dimensions fastest."""
        return [math.prod(shape[: self.axis]), shape[self.axis], math.prod(shape[self.axis + 1 :])]

    def _unfolded(self, x, shape):
        """`x` in a shape, except for its own size along the dimension."""
        return tf.reshape(x, _replaced(shape, self.axis, x.shape[1]))

    def padded(self, x):
        """`x` with the voxels of padding that the taps read."""
        before, after = self.window.pads(self.size)
        if not before and not after:
            return x
        shape = x.shape.as_list()
        return self._unfolded(tf.pad(tf.reshape(x, self._folded(shape)), [[0, 0], [before, after], [0, 0]]), shape)

    def unpadded(self, dx):
        """The adjoint of `padded`."""
        before, after = self.window.pads(self.size)
        if not before and not after:
            return dx
        shape = dx.shape.as_list()
        return self._unfolded(tf.reshape(dx, self._folded(shape))[:, before : before + self.size], shape)

    def read(self, x, tap):
        """The voxels of a padded `x` that one tap reads, one for each output."""
        shape, first, stride = x.shape.as_list(), tap * self.window.dilation, self.window.stride
        x = tf.reshape(x, self._folded(shape))
        if stride == 1:
            x = x[:, first : first + self.outputs]
        else:
            # On the CPU, a strided slice takes ten times as long.
            x = tf.gather(x, list(range(first, first + self.outputs * stride, stride)), axis=1)
        return self._unfolded(x, shape)

    def read_shape(self, shape):
        """The shape of what one tap reads of a tensor of a shape."""
        return _replaced(shape, self.axis, self.outputs)

    def spread(self, values, tap):
        """The adjoint of `read`: values at the voxels that one tap reads of a padded tensor, zeros at the others."""
        shape, first, stride = values.shape.as_list(), tap * self.window.dilation, self.window.stride
        outer, outputs, inner = self._folded(shape)
        size, span = self.size + sum(self.window.pads(self.size)), outputs * stride
        if stride > 1:
            values = tf.pad(tf.reshape(values, [outer * outputs, inner]), [[0, 0], [0, (stride - 1) * inner]])
        values = tf.reshape(values, [outer, span, inner])[:, : size - first]
        values = tf.pad(values, [[0, 0], [first, max(0, size - first - span)], [0, 0]])
        return self._unfolded(values, shape)


def _native(kernel, strides, padding, dilations):
    """Arguments of TensorFlow's kernels.

    The dilation of a single tap has no effect, so it is left out: some kernels refuse any dilation. Along the last two
    dimensions it is set to the other's, so that both are equal (see `_axis_by_tap`).
    """
    dilations = [1 if taps == 1 else d for taps, d in zip(kernel, dilations, strict=True)]
    if len(kernel) == 3 and min(kernel[1:]) == 1:
        dilations = [dilations[0], *[max(dilations[1:])] * 2]
    return {"strides": _around(strides), "padding": padding, "dilations": _around(dilations)}


def adjoint_filter(f):
    """The filter `[kernel..., out, in]` whose convolution, of stride 1, is the adjoint of that of `f`."""
    spatial = list(range(len(f.shape) - 2))
    return tf.transpose(tf.reverse(f, spatial), [*spatial, len(spatial) + 1, len(spatial)])


def conv(x, f, strides, padding, dilations):
    """`y[batch, outputs..., out]`."""
    kernel = f.shape.as_list()[:-2]
    taps = _Taps.make(x.dtype, x.shape.as_list()[1:-1], kernel, strides, padding, dilations)
    if taps is not None:
        x = taps.padded(x)
        return tf.add_n([conv(taps.read(x, tap), taps.of_filter(f, tap), *taps.rest) for tap in taps.numbers])
    fn = tf.raw_ops.Conv2D if len(kernel) == 2 else tf.raw_ops.Conv3D
    return fn(input=x, filter=f, **_native(kernel, strides, padding, dilations))


def conv_input_grad(shape, f, dy, strides, padding, dilations):
    """`dx` of the given shape from `dy` (also: the transposed convolution of `dy`)."""
    shape, kernel = list(shape), f.shape.as_list()[:-2]
    taps = _Taps.make(dy.dtype, shape[1:-1], kernel, strides, padding, dilations)
    if taps is not None:
        read = taps.read_shape(shape)
        gradients = [conv_input_grad(read, taps.of_filter(f, tap), dy, *taps.rest) for tap in taps.numbers]
        return taps.unpadded(tf.add_n([taps.spread(dx, tap) for tap, dx in enumerate(gradients)]))
    fn = tf.raw_ops.Conv2DBackpropInput if len(kernel) == 2 else tf.raw_ops.Conv3DBackpropInputV2
    return fn(input_sizes=shape, filter=f, out_backprop=dy, **_native(kernel, strides, padding, dilations))


def conv_filter_grad(x, shape, dy, strides, padding, dilations):
    """`df` of the given shape from `x` and `dy`, a sum over the batch."""
    shape, kernel = list(shape), list(shape[:-2])
    taps = _Taps.make(x.dtype, x.shape.as_list()[1:-1], kernel, strides, padding, dilations)
    if taps is not None:
        x, of_tap = taps.padded(x), _replaced(shape, taps.axis - 1, 1)
        gradients = [conv_filter_grad(taps.read(x, tap), of_tap, dy, *taps.rest) for tap in taps.numbers]
        return tf.concat(gradients, taps.axis - 1)
    fn = tf.raw_ops.Conv2DBackpropFilter if len(kernel) == 2 else tf.raw_ops.Conv3DBackpropFilterV2
    return fn(input=x, filter_sizes=shape, out_backprop=dy, **_native(kernel, strides, padding, dilations))
