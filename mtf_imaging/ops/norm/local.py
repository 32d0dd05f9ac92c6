"""Normalization on one device: what norms call on their slices.

`x` is `[cases, ..., channels]`, statistics and what is learned `[cases, channels]`: of every case by itself, or of one
case that stands for all. TensorFlow's fused kernels do the work where they know the dtype: a few times faster than
elementwise operations, and no tensor is widened to the dtype of the statistics. They know channels only, the last
dimension; several cases become channels of their own, for one copy of `x`.

On a CPU these kernels add one value after the other, though: of the 2 million float32s a channel of 128^3 voxels such a
sum is off by 1e-3 of its value (measured). So each channel is summed in columns, about as many as each has values, and
these in float64, which leaves 1e-6.
"""

import math

import tensorflow as tf

FUSED_DTYPES = (tf.float32, tf.bfloat16, tf.float16)


class _Columns:
    """How `[cases, ..., channels]` is seen by the kernels: `[1, 1, rows, cases x columns x channels]`.

    Args:
      x: what is seen.
      to_sum: whether there are as many columns as make sums exact, or one, which the kernels are fastest with, unless
        several cases are to be copied.
    """

    def __init__(self, x: tf.Tensor, to_sum: bool) -> None:
        self._shape = x.shape
        self._cases, *sizes, self._channels = x.shape
        self.columns = 1
        while (to_sum or self._cases > 1) and self.columns * self.columns < math.prod(sizes):
            self.columns *= sizes.pop()
        self.rows = math.prod(sizes)

    def view(self, x: tf.Tensor) -> tf.Tensor:
        if self._cases > 1:
            x = tf.transpose(tf.reshape(x, [self._cases, self.rows, -1]), [1, 0, 2])
        return tf.reshape(x, [1, 1, self.rows, -1])

    def undo(self, view: tf.Tensor) -> tf.Tensor:
        if self._cases > 1:
            view = tf.transpose(tf.reshape(view, [self.rows, self._cases, -1]), [1, 0, 2])
        return tf.reshape(view, self._shape)

    def spread(self, values: tf.Tensor) -> tf.Tensor:
        """`[cases, channels]` for every column."""
        return tf.reshape(tf.tile(values[:, tf.newaxis], [1, self.columns, 1]), [-1])

    def sum(self, values: tf.Tensor) -> tf.Tensor:
        """The adjoint of `spread`, in float64."""
        return tf.reduce_sum(tf.reshape(tf.cast(values, tf.float64), [self._cases, self.columns, self._channels]), 1)


def sums(x: tf.Tensor) -> tf.Tensor:
    """Returns the sum of each channel: float64, `[cases, 1, channels]`."""
    columns = _Columns(x, to_sum=True)
    return columns.sum(tf.reduce_sum(columns.view(x), axis=[0, 1, 2]))[:, tf.newaxis]


def centered_squares(x: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """Returns the sum of squared deviations from `mean`, in the shape of `sums`."""
    columns = _Columns(x, to_sum=True)
    squares = tf.math.squared_difference(columns.view(x), columns.spread(mean))
    return columns.sum(tf.reduce_sum(squares, axis=[0, 1, 2]))[:, tf.newaxis]


def power_sums(x: tf.Tensor) -> tf.Tensor:
    """Returns the sum and the sum of squares of each channel, for `FUSED_DTYPES`: float64, `[cases, 2, channels]`.

    One pass over `x` computes both. float64 has enough digits to compute a float32 variance from them: if the mean is
    10,000 standard deviations, its square is 1e8 variances, and float64 resolves 1e-8 of one variance.
    """
    columns = _Columns(x, to_sum=True)
    rows, x = columns.rows, columns.view(x)
    ones, nothing = tf.ones(x.shape[3:]), tf.zeros([0])
    _, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=x, scale=ones, offset=tf.zeros_like(ones), mean=nothing, variance=nothing
    )
    variance *= (rows - 1) / rows  # the kernel returns the unbiased variance
    mean, variance = tf.cast(mean, tf.float64), tf.cast(variance, tf.float64)
    return rows * tf.stack([columns.sum(mean), columns.sum(variance + tf.square(mean))], axis=1)


def _normalize(
    x: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    scale: tf.Tensor | float,
    offset: tf.Tensor | float,
    epsilon: float,
) -> tf.Tensor:
    """Normalizes `x`. `tf.nn.batch_normalization` multiplies before subtracting, so it loses digits of a large mean."""
    return (x - mean) * (scale * tf.math.rsqrt(variance + epsilon)) + offset


def normalize(
    x: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, epsilon: float
) -> tf.Tensor:
    """`(x - mean) / sqrt(variance + epsilon) scale + offset`."""
    columns = _Columns(x, to_sum=False)
    mean, variance, scale, offset = [columns.spread(s) for s in (mean, variance, scale, offset)]
    if x.dtype in FUSED_DTYPES:
        y, *_ = tf.raw_ops.FusedBatchNormV3(
            x=columns.view(x),
            scale=scale,
            offset=offset,
            mean=mean,
            variance=variance,
            epsilon=epsilon,
            is_training=False,
        )
    else:
        y = _normalize(columns.view(x), mean, variance, scale, offset, epsilon)
    return columns.undo(y)


def gradient_sums(x: tf.Tensor, dy: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns the sums of `dy (x - mean) / sqrt(variance + epsilon)` and `dy`: float64, `[cases, 2, channels]`."""
    columns = _Columns(x, to_sum=True)
    x, dy, mean, variance = columns.view(x), columns.view(dy), columns.spread(mean), columns.spread(variance)
    if x.dtype in FUSED_DTYPES:
        _, of_normal, of_dy, *_ = tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=dy,
            x=x,
            scale=tf.ones_like(mean),
            reserve_space_1=mean,
            reserve_space_2=variance,
            reserve_space_3=tf.zeros([0]),
            epsilon=epsilon,
            is_training=False,
        )
    else:
        normal = _normalize(x, mean, variance, 1, 0, epsilon)
        of_normal, of_dy = tf.reduce_sum(dy * normal, axis=[0, 1, 2]), tf.reduce_sum(dy, axis=[0, 1, 2])
    return tf.stack([columns.sum(of_normal), columns.sum(of_dy)], axis=1)


def gradient(
    x: tf.Tensor,
    dy: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    scale: tf.Tensor,
    of_normal: tf.Tensor,
    of_dy: tf.Tensor,
    epsilon: float,
) -> tf.Tensor:
    """Gradient to `x`, through the statistics.

    `(scale dy - of_dy - normal of_normal) / sqrt(variance + epsilon)`, as Ioffe and Szegedy 2015 (arXiv:1502.03167),
    section 3, have it, where `of_normal` and `of_dy` are means of `scale dy normal` and `scale dy` over all that share
    statistics. Both terms are of the form of a normalization.
    """
    nothing = tf.zeros_like(mean)
    inverse = tf.math.rsqrt(variance + epsilon)
    of_scale = normalize(dy, nothing, variance, scale, -inverse * of_dy, epsilon)
    return of_scale - normalize(x, mean, variance, inverse * of_normal, nothing, epsilon)
