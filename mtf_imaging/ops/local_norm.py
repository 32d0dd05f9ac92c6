"""Batch normalisation on one device: what batch norm calls on its slices.

`x` is `[..., channels]`, what is of a channel `[channels]`. TensorFlow's fused kernels do the work where they know the
dtype: a few times faster than elementwise operations, and no tensor is widened to the dtype of the statistics. On a CPU
they add one value after the other, though: of the 2 million float32s a channel of 128^3 voxels such a sum is off by
1e-3 of its value (measured). So each channel is summed in columns, about as many as each has values, and these in
float64, which leaves 1e-6.
"""

import math

import tensorflow as tf

_FUSED_DTYPES = (tf.float32, tf.bfloat16, tf.float16)


def _columns(x):
    """`[..., channels]` as `[1, 1, rows, columns x channels]`, and the number of columns."""
    *sizes, channels = x.shape
    columns = 1
    while sizes and columns * columns < math.prod(sizes):
        columns *= sizes.pop()
    return tf.reshape(x, [1, 1, math.prod(sizes), columns * channels]), columns


def _sum_columns(values, columns):
    return tf.reduce_sum(tf.reshape(tf.cast(values, tf.float64), [columns, -1]), axis=0)


def power_sums(x):
    """The sum and the sum of squares of each channel: float64, `[2, channels]`.

    (In float64 a variance can be had of these, however much larger the mean is.)
    """
    x, columns = _columns(x)
    rows, width = x.shape[2:]
    if x.dtype in _FUSED_DTYPES:
        _, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=tf.ones([width]), offset=tf.zeros([width]), mean=tf.zeros([0]), variance=tf.zeros([0])
        )
        variance *= (rows - 1) / rows  # the kernel's is that of a sample
    else:
        mean, variance = tf.nn.moments(x, axes=[0, 1, 2])
    mean, variance = tf.cast(mean, tf.float64), tf.cast(variance, tf.float64)
    return rows * tf.stack([_sum_columns(mean, columns), _sum_columns(variance + tf.square(mean), columns)])


def normalise(x, mean, variance, scale, offset, epsilon):
    """`(x - mean) / sqrt(variance + epsilon) scale + offset`."""
    if x.dtype not in _FUSED_DTYPES:
        return tf.nn.batch_normalization(x, mean, variance, offset, scale, epsilon)
    y, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(x, [1, 1, -1, x.shape[-1]]),
        scale=scale,
        offset=offset,
        mean=mean,
        variance=variance,
        epsilon=epsilon,
        is_training=False,
    )
    return tf.reshape(y, x.shape)


def gradient_sums(x, dy, mean, variance, epsilon):
    """Gradients to scale and offset, from the statistics and from `dy` to the result: float64, `[2, channels]`."""
    (x, columns), (dy, _) = _columns(x), _columns(dy)
    if x.dtype in _FUSED_DTYPES:
        _, dscale, doffset, *_ = tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=dy,
            x=x,
            scale=tf.ones([x.shape[-1]]),
            reserve_space_1=tf.tile(mean, [columns]),
            reserve_space_2=tf.tile(variance, [columns]),
            reserve_space_3=tf.zeros([0]),
            epsilon=epsilon,
            is_training=False,
        )
    else:
        normal = normalise(x, tf.tile(mean, [columns]), tf.tile(variance, [columns]), None, None, epsilon)
        dscale, doffset = tf.reduce_sum(dy * normal, axis=[0, 1, 2]), tf.reduce_sum(dy, axis=[0, 1, 2])
    return tf.stack([_sum_columns(dscale, columns), _sum_columns(doffset, columns)])


def gradient(x, dy, mean, variance, scale, dscale, doffset, count, epsilon):
    """Gradient to `x`, through the statistics of `count` values a channel, whose `gradient_sums` are given.

    `scale (dy - doffset / count - normal dscale / count) / sqrt(variance + epsilon)`, as Ioffe and Szegedy 2015
    (arXiv:1502.03167), section 3, have it; both terms are of the form of a normalisation.
    """
    nothing = tf.zeros_like(scale)
    of_normal = scale * tf.math.rsqrt(variance + epsilon) * dscale / count
    of_dy = normalise(dy, doffset / count, variance, scale, nothing, epsilon)
    return of_dy - normalise(x, mean, variance, of_normal, nothing, epsilon)
