"""Convolution and its two adjoints on one device, for 2 and 3 spatial dimensions: what conv ops call on their slices.

All take `[batch, spatial..., channels]`, filters `[kernel..., in, out]`.
"""

import tensorflow as tf

# TensorFlow's CPU kernels dilate in float32 and bfloat16 only (oneDNN); a filter with zeros between its taps serves the
# others.
_DILATING = (tf.float32, tf.bfloat16, tf.float16)


def _around(values):
    return [1, *values, 1]


def _spread(f, dilations):
    """A filter with zeros between its taps, `(k - 1) d + 1` taps along each spatial dimension."""
    for axis, d in enumerate(dilations):
        shape = list(f.shape)
        pads = [[0, 0] for _ in range(len(shape) + 1)]
        pads[axis + 1] = [0, d - 1]
        f = tf.reshape(tf.pad(tf.expand_dims(f, axis + 1), pads), [*shape[:axis], shape[axis] * d, *shape[axis + 1 :]])
        f = tf.gather(f, list(range((shape[axis] - 1) * d + 1)), axis=axis)
    return f


def _unspread(f, dilations):
    """The adjoint of `_spread`: the taps of a filter between its zeros."""
    return f[tuple(slice(None, None, d) for d in dilations)]


def _needs_spread(x, dilations):
    if all(d == 1 for d in dilations):
        return False
    # TensorFlow 2.21 infers the shape of Conv3D with the last two dilations swapped.
    return x.dtype not in _DILATING or len(set(dilations)) > 1


def adjoint_filter(f):
    """The filter `[kernel..., out, in]` whose convolution, of stride 1, is the adjoint of that of `f`."""
    spatial = list(range(len(f.shape) - 2))
    return tf.transpose(tf.reverse(f, spatial), [*spatial, len(spatial) + 1, len(spatial)])


def conv(x, f, strides, padding, dilations):
    """`y[batch, outputs..., out]`."""
    if _needs_spread(x, dilations):
        f, dilations = _spread(f, dilations), [1] * len(dilations)
    fn = tf.raw_ops.Conv2D if len(strides) == 2 else tf.raw_ops.Conv3D
    return fn(input=x, filter=f, strides=_around(strides), padding=padding, dilations=_around(dilations))


def conv_input_grad(shape, f, dy, strides, padding, dilations):
    """`dx` of the given shape from `dy` (also: the transposed convolution of `dy`)."""
    if _needs_spread(dy, dilations):
        f, dilations = _spread(f, dilations), [1] * len(dilations)
    fn = tf.raw_ops.Conv2DBackpropInput if len(strides) == 2 else tf.raw_ops.Conv3DBackpropInputV2
    return fn(
        input_sizes=shape,
        filter=f,
        out_backprop=dy,
        strides=_around(strides),
        padding=padding,
        dilations=_around(dilations),
    )


def conv_filter_grad(x, shape, dy, strides, padding, dilations):
    """`df` of the given shape from `x` and `dy`, a sum over the batch."""
    if _needs_spread(x, dilations):
        wide = [(k - 1) * d + 1 for k, d in zip(shape, dilations)]
        ones = [1] * len(dilations)
        return _unspread(conv_filter_grad(x, wide + list(shape[-2:]), dy, strides, padding, ones), dilations)
    fn = tf.raw_ops.Conv2DBackpropFilter if len(strides) == 2 else tf.raw_ops.Conv3DBackpropFilterV2
    return fn(
        input=x,
        filter_sizes=shape,
        out_backprop=dy,
        strides=_around(strides),
        padding=padding,
        dilations=_around(dilations),
    )
