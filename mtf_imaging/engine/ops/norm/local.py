"""Normalization on one device: the functions that norms call on their slices.

`x` is `[cases, ..., channels]`. Statistics and trained variables are `[cases, channels]` if each case has its own, else
`[channels]`.

TensorFlow's fused kernels do the work for the dtypes that they support. They are a few times faster than elementwise
operations, and they do not convert whole tensors to the dtype of the statistics. They only support per-channel
statistics, where the channels are the last dimension. Several cases are therefore passed as additional channels, at the
cost of one copy of `x`.

On a CPU, these kernels process `[rows, channels]` row by row. This has two effects (measured):

- They add values one by one. The sum of a channel of 128^3 voxels, 2 million float32 values, has a relative error of
  1e-3.
- They are slow for short rows. In bfloat16, rows of 8 channels take 20 times as long as rows of 32,768 values.

`_Columns` therefore joins the channels of many voxels into one row. For sums, there are about as many columns as rows,
and the column sums are added in float64, which reduces the error to 1e-6.
"""

import math

import tensorflow as tf

from mtf_imaging.engine.meshes.portable import is_portable

FUSED_DTYPES = (tf.float32, tf.bfloat16, tf.float16)

_ROW = 32768  # maximum values per row: the fastest on average for large images
_ROWS = 256  # minimum rows of a view with several columns, because statistics are repeated for every column
_CACHE = 2**23  # bytes that statistics are computed from at once
_MOST_PARTS = 32  # of a tensor, because each part adds a dozen nodes to the graph
_VECTOR = 16  # values that oneDNN kernels compute at once; in 16 bits, other rows take 20 times as long


class _Columns:
    """A view of `[cases, ..., channels]` for the kernels: `[1, 1, rows, cases x columns x channels]`.

    If all cases share statistics, `cases` is 1 in this view. If rows of 16-bit values do not fit the vectors of a CPU,
    the view is a copy in float32.

    Args:
      x: the tensor to view.
      by_case: whether each case has its own statistics.
      to_sum: whether the view is for sums, which need about as many columns as rows.
    """

    def __init__(self, x: tf.Tensor, by_case: bool, to_sum: bool) -> None:
        self._shape, self._dtype = x.shape, x.dtype
        *sizes, self._channels = x.shape
        self._cases = [sizes.pop(0)] if by_case else []
        self._has_many_cases = math.prod(self._cases) > 1
        positions, row = math.prod(sizes), math.prod(self._cases) * self._channels
        step = math.gcd(positions, _VECTOR // math.gcd(row, _VECTOR))  # the columns that fill a vector
        if to_sum:
            self.columns = positions // _divisor(positions // step, math.isqrt(positions))
        else:
            self.columns = step * _divisor(positions // step, min(positions // _ROWS, _ROW // row) // step)
        self.rows = positions // self.columns
        fits = row * self.columns % _VECTOR == 0
        self._view_dtype = tf.float32 if x.dtype.size == 2 and not fits else x.dtype

    def view(self, x: tf.Tensor) -> tf.Tensor:
        x = tf.cast(x, self._view_dtype)
        if self._has_many_cases:
            x = tf.transpose(tf.reshape(x, [*self._cases, self.rows, -1]), [1, 0, 2])
        return tf.reshape(x, [1, 1, self.rows, -1])

    def undo(self, view: tf.Tensor) -> tf.Tensor:
        if self._has_many_cases:
            view = tf.transpose(tf.reshape(view, [self.rows, *self._cases, -1]), [1, 0, 2])
        return tf.cast(tf.reshape(view, self._shape), self._dtype)

    def spread(self, *statistics: tf.Tensor) -> list[tf.Tensor]:
        """Repeats statistics for every column."""
        values = tf.stack(statistics)
        if self.columns > 1:
            values = tf.tile(values, [1] * (1 + len(self._cases)) + [self.columns])
        return tf.unstack(tf.reshape(values, [len(statistics), -1]) if self._cases else values)

    def sum(self, *values: tf.Tensor) -> tf.Tensor:
        """Sums values over columns, the adjoint of `spread`: `[cases, values, channels]`.

        They are summed in float64, or in their own dtype if operations are portable.
        """
        wide = values[0].dtype if is_portable() else tf.float64
        summands = tf.cast(tf.stack(values), wide)
        totals = tf.reduce_sum(tf.reshape(summands, [len(values), *self._cases, self.columns, self._channels]), axis=-2)
        return tf.transpose(totals, [1, 0, 2]) if self._cases else totals


def _divisor(number: int, most: int) -> int:
    """Returns the largest divisor of a number up to `most`, or 1.

    >>> _divisor(96 * 96, 50), _divisor(7, 6), _divisor(4, 0)
    (48, 1, 1)
    """
    return next((d for d in range(min(number, most), 1, -1) if number % d == 0), 1)


def sums(x: tf.Tensor, by_case: bool) -> tf.Tensor:
    """Returns the sum of each channel: float64, `[cases, 1, channels]`."""
    columns = _Columns(x, by_case, to_sum=True)
    return columns.sum(tf.reduce_sum(columns.view(x), axis=[0, 1, 2]))


def centered_squares(x: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """Returns the sum of the squared deviations of each channel from `mean`: float64, `[cases, 1, channels]`."""
    columns = _Columns(x, _has_cases(mean), to_sum=True)
    squares = tf.math.squared_difference(columns.view(x), *columns.spread(mean))
    return columns.sum(tf.reduce_sum(squares, axis=[0, 1, 2]))


def power_sums(x: tf.Tensor, by_case: bool) -> tf.Tensor:
    """Returns the sum and the sum of squares of each channel, for `FUSED_DTYPES`: float64, `[cases, 2, channels]`.

    Their precision is sufficient for a float32 variance: if the mean is 10,000 standard deviations, its square is 1e8
    variances, and float64 resolves 1e-8 of one variance. The kernel reads `x` three times, and writes a normalized copy
    that is not read, so it gets parts of `x` that fit into the cache of a CPU.
    """
    columns = _Columns(x, by_case, to_sum=True)
    x = columns.view(x)
    size = x.shape.num_elements() * x.dtype.size
    parts = _divisor(columns.rows, min(size // _CACHE, _MOST_PARTS))
    rows = columns.rows // parts
    unread, nothing = tf.zeros(x.shape[3:]), tf.zeros([0])  # the arbitrary scale and offset of the copy

    def moments(part: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        part = tf.reshape(part, [1, 1, rows, -1])
        _, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=part, scale=unread, offset=unread, mean=nothing, variance=nothing
        )
        variance *= (rows - 1) / rows  # the kernel returns the unbiased variance
        mean, variance = tf.cast(mean, tf.float64), tf.cast(variance, tf.float64)
        return mean, variance + tf.square(mean)

    sums = map(moments, tf.split(tf.reshape(x, [columns.rows, -1]), parts))
    return rows * columns.sum(*map(tf.add_n, zip(*sums, strict=True)))


def _has_cases(statistics: tf.Tensor) -> bool:
    """Returns whether each case has its own statistics."""
    return len(statistics.shape) == 2


def _normalize(
    x: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    scale: tf.Tensor | float,
    offset: tf.Tensor | float,
    epsilon: float,
) -> tf.Tensor:
    """Normalizes `x`.

    Unlike `tf.nn.batch_normalization`, it subtracts before it multiplies, which preserves digits if the mean is large.
    """
    return (x - mean) * (scale * tf.math.rsqrt(variance + epsilon)) + offset


def normalize(
    x: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, epsilon: float
) -> tf.Tensor:
    """Returns `(x - mean) / sqrt(variance + epsilon) scale + offset`."""
    columns = _Columns(x, _has_cases(mean), to_sum=False)
    mean, variance, scale, offset = columns.spread(mean, variance, scale, offset)
    return columns.undo(_fused(columns.view(x), mean, variance, scale, offset, epsilon))


def _fused(
    x: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, epsilon: float
) -> tf.Tensor:
    """Normalizes a view with a fused kernel, if there is one for its dtype."""
    if x.dtype not in FUSED_DTYPES or is_portable():
        return _normalize(x, mean, variance, scale, offset, epsilon)
    y, *_ = tf.raw_ops.FusedBatchNormV3(
        x=x, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=epsilon, is_training=False
    )
    return y


def gradient_sums(x: tf.Tensor, dy: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Returns the sums of `dy (x - mean) / sqrt(variance + epsilon)` and `dy`: float64, `[cases, 2, channels]`."""
    columns = _Columns(x, _has_cases(mean), to_sum=True)
    x, dy = columns.view(x), columns.view(dy)
    mean, variance = columns.spread(mean, variance)
    if x.dtype in FUSED_DTYPES:
        _, dy_normal, dy_sum, *_ = tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=dy,
            x=x,
            scale=mean,  # affects only the gradient of x, which is not read
            reserve_space_1=mean,
            reserve_space_2=variance,
            reserve_space_3=tf.zeros([0]),
            epsilon=epsilon,
            is_training=False,
        )
    else:
        normal = _normalize(x, mean, variance, 1, 0, epsilon)
        dy_normal, dy_sum = tf.reduce_sum(dy * normal, axis=[0, 1, 2]), tf.reduce_sum(dy, axis=[0, 1, 2])
    return columns.sum(dy_normal, dy_sum)


def gradient(
    x: tf.Tensor,
    dy: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    scale: tf.Tensor,
    mean_dy_normal: tf.Tensor,
    mean_dy: tf.Tensor,
    epsilon: float,
) -> tf.Tensor:
    """Returns the gradient with respect to `x`, including the gradient through the statistics.

    `(scale dy - mean_dy - normal mean_dy_normal) / sqrt(variance + epsilon)` (Ioffe and Szegedy 2015, arXiv:1502.03167,
    section 3). `mean_dy_normal` and `mean_dy` are the means of `scale dy normal` and `scale dy` over all values that
    share statistics. The formula is the difference of two normalizations, so the fused kernels compute it.
    """
    inverse = tf.math.rsqrt(variance + epsilon)
    columns = _Columns(x, _has_cases(mean), to_sum=False)
    mean, variance, scale, slope, offset, zeros = columns.spread(
        mean, variance, scale, inverse * mean_dy_normal, -inverse * mean_dy, tf.zeros_like(mean)
    )
    direct = _fused(columns.view(dy), zeros, variance, scale, offset, epsilon)
    return columns.undo(direct - _fused(columns.view(x), mean, variance, slope, zeros, epsilon))
