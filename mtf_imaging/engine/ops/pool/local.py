"""Pooling and its gradients on one device, for 1, 2 and 3 spatial dimensions.

The pool operations call these functions on their slices, which are `[batch, spatial..., channels]`. TensorFlow has no
float64 3D pools on the CPU, and TFLite has no 3D pools at all. For these, each tap of the window is read as a strided
slice. TensorFlow has no 1D pools, so these get a second dimension of size 1 in front. On the CPU, pools of 16-bit
dtypes are computed in float32: TensorFlow has no float16 3D pools there, and its other kernels add in 16 bits, which
loses summands of large windows. A max pool in bfloat16 adds nothing, and neither does its gradient if windows do not
overlap, so these need no float32. In 3D, TensorFlow's own kernel gives the gradient of a max pool to all of the largest
voxels of a window. Where oneDNN does not replace this kernel, other kernels are used; one such place is bfloat16 on
CPUs without AVX-512.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.portable import is_portable


def _around(values: Sequence[int]) -> list[int]:
    return [1, *values, 1]


def _taps(
    shape: Sequence[int], ksize: Sequence[int], strides: Sequence[int]
) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Yields the (begin, end, strides) of the slice that each tap of a VALID window reads, in row-major order."""
    outputs = [(n - k) // s + 1 for n, k, s in zip(shape[1:-1], ksize, strides)]
    for tap in itertools.product(*(range(k) for k in ksize)):
        end = [t + (o - 1) * s + 1 for t, o, s in zip(tap, outputs, strides)]
        yield [0, *tap, 0], [shape[0], *end, shape[-1]], _around(strides)


def _tap_values(x: tf.Tensor, ksize: Sequence[int], strides: Sequence[int]) -> list[tf.Tensor]:
    return [tf.strided_slice(x, *tap) for tap in _taps(x.shape, ksize, strides)]


def _add_taps(
    shape: Sequence[int], ksize: Sequence[int], strides: Sequence[int], gradients: Iterable[tf.Tensor]
) -> tf.Tensor:
    """Returns the gradient of `_tap_values` with respect to `x`, which has the given shape."""
    return tf.add_n(
        [
            tf.raw_ops.StridedSliceGrad(shape=list(shape), begin=begin, end=end, strides=step, dy=dy)
            for (begin, end, step), dy in zip(_taps(shape, ksize, strides), gradients)
        ]
    )


def _needs_taps(x: tf.Tensor, ksize: Sequence[int]) -> bool:
    return len(ksize) == 3 and (x.dtype == tf.float64 or is_portable())


def _needs_float32(dtype: tf.DType, adds: bool = True) -> bool:
    is_exact = dtype == tf.bfloat16 and not adds and not is_portable()
    return dtype.size == 2 and not is_exact and not tf.config.get_visible_devices("GPU")


def max_pool(x: tf.Tensor, ksize: Sequence[int], strides: Sequence[int]) -> tf.Tensor:
    """Returns the largest voxel of every VALID window."""
    if len(ksize) == 1:
        return tf.squeeze(max_pool(tf.expand_dims(x, 1), [1, *ksize], [1, *strides]), [1])
    if _needs_float32(x.dtype, adds=False):
        return tf.cast(max_pool(tf.cast(x, tf.float32), ksize, strides), x.dtype)
    if _needs_taps(x, ksize):
        return functools.reduce(tf.maximum, _tap_values(x, ksize, strides))
    fn = tf.raw_ops.MaxPool if len(ksize) == 2 else tf.raw_ops.MaxPool3D
    return fn(input=x, ksize=_around(ksize), strides=_around(strides), padding="VALID")


def _first_largest(x: tf.Tensor, ksize: Sequence[int], strides: Sequence[int]) -> Iterator[tf.Tensor]:
    """Yields a mask for each tap: the windows in which the tap reads the first of the largest voxels."""
    values = _tap_values(x, ksize, strides)
    y = functools.reduce(tf.maximum, values)
    taken = tf.zeros_like(y, tf.bool)
    for value in values:
        first = tf.logical_and(tf.equal(value, y), tf.logical_not(taken))
        taken = tf.logical_or(taken, first)
        yield first


def max_pool_grad(x: tf.Tensor, dy: tf.Tensor, ksize: Sequence[int], strides: Sequence[int]) -> tf.Tensor:
    """Returns the gradient with respect to `x`: the first of the largest voxels of a window gets its gradient."""
    if len(ksize) == 1:
        dx = max_pool_grad(tf.expand_dims(x, 1), tf.expand_dims(dy, 1), [1, *ksize], [1, *strides])
        return tf.squeeze(dx, [1])
    adds = any(s < k for k, s in zip(ksize, strides, strict=True))
    is_3d_bfloat16 = len(ksize) == 3 and x.dtype == tf.bfloat16
    if _needs_float32(x.dtype, adds) or (is_3d_bfloat16 and not _takes_one_voxel(x.dtype)):
        # Without this dependency, TensorFlow merges this copy with the pool's copy, and keeps it until this gradient.
        with tf.control_dependencies([dy]):
            wide_x = tf.cast(x, tf.float32)
        return tf.cast(max_pool_grad(wide_x, tf.cast(dy, tf.float32), ksize, strides), x.dtype)
    if _needs_taps(x, ksize):
        gradients = [tf.where(first, dy, tf.zeros_like(dy)) for first in _first_largest(x, ksize, strides)]
        return _add_taps(x.shape, ksize, strides, gradients)
    if len(ksize) == 3 and not _takes_one_voxel(x.dtype):
        return _grad_of_planes(x, dy, ksize, strides)
    return _grad_of_kernel(x, dy, ksize, strides)


def _grad_of_kernel(x: tf.Tensor, dy: tf.Tensor, ksize: Sequence[int], strides: Sequence[int]) -> tf.Tensor:
    """Returns the gradient of a 2D or 3D max pool with respect to `x`, by TensorFlow's kernel."""
    fn = tf.raw_ops.MaxPoolGrad if len(ksize) == 2 else tf.raw_ops.MaxPool3DGrad
    # The pool is repeated next to its gradient, and TensorFlow merges equal nodes. TensorFlow uses oneDNN's gradient,
    # which breaks ties in favor of the first voxel, only if it sees both operations.
    y = max_pool(x, ksize, strides)
    return fn(orig_input=x, orig_output=y, grad=dy, ksize=_around(ksize), strides=_around(strides), padding="VALID")


@functools.cache
def _takes_one_voxel(dtype: tf.DType) -> bool:
    """Returns whether TensorFlow's 3D kernel gives the gradient of a max pool to one of equal voxels.

    This depends on the CPU and on oneDNN, so it is found out once for each dtype. GPUs have kernels of their own.
    """
    if tf.config.get_visible_devices("GPU"):
        return True
    shape, window = [1, 2, 2, 2, 1], [2, 2, 2]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x, dy = tf.compat.v1.placeholder(dtype, shape), tf.compat.v1.placeholder(dtype, [1] * 5)
        voxels = tf.math.count_nonzero(_grad_of_kernel(x, dy, window, window))
        return bool(session.run(voxels, {x: np.ones(shape), dy: np.ones([1] * 5)}) == 1)


def _grad_of_planes(x: tf.Tensor, dy: tf.Tensor, ksize: Sequence[int], strides: Sequence[int]) -> tf.Tensor:
    """Returns the gradient of a 3D max pool, which is the maximum of 2D max pools of its planes."""
    planes = tf.reshape(x, [x.shape[0] * x.shape[1], *x.shape[2:]])
    y = max_pool(planes, ksize[1:], strides[1:])
    rows = tf.reshape(y, [*x.shape[:2], *y.shape[1:]])
    along = [ksize[0], 1, 1], [strides[0], 1, 1]
    gradients = [tf.where(first, dy, tf.zeros_like(dy)) for first in _first_largest(rows, *along)]
    dy = tf.reshape(_add_taps(rows.shape, *along, gradients), y.shape)
    return tf.reshape(max_pool_grad(planes, dy, ksize[1:], strides[1:]), x.shape)


def take_largest(x: tf.Tensor, values: tf.Tensor, ksize: Sequence[int], strides: Sequence[int]) -> tf.Tensor:
    """Returns the value at the first of the largest voxels of each window of `x`: the adjoint of `max_pool_grad`."""
    taps = zip(_first_largest(x, ksize, strides), _tap_values(values, ksize, strides), strict=True)
    return tf.add_n([tf.where(first, value, tf.zeros_like(value)) for first, value in taps])


def mean_pool(x: tf.Tensor, ksize: Sequence[int], strides: Sequence[int]) -> tf.Tensor:
    """Returns the mean of every VALID window."""
    if len(ksize) == 1:
        return tf.squeeze(mean_pool(tf.expand_dims(x, 1), [1, *ksize], [1, *strides]), [1])
    if _needs_float32(x.dtype):
        return tf.cast(mean_pool(tf.cast(x, tf.float32), ksize, strides), x.dtype)
    if _needs_taps(x, ksize):
        values = _tap_values(x, ksize, strides)
        return tf.add_n(values) / len(values)
    return tf.nn.avg_pool(x, ksize, strides, "VALID")


def mean_pool_grad(shape: Sequence[int], dy: tf.Tensor, ksize: Sequence[int], strides: Sequence[int]) -> tf.Tensor:
    """Returns the gradient with respect to `x`, which has the given shape: the adjoint of `mean_pool`."""
    if len(ksize) == 1:
        dx = mean_pool_grad([shape[0], 1, *shape[1:]], tf.expand_dims(dy, 1), [1, *ksize], [1, *strides])
        return tf.squeeze(dx, [1])
    if _needs_float32(dy.dtype):
        return tf.cast(mean_pool_grad(shape, tf.cast(dy, tf.float32), ksize, strides), dy.dtype)
    if _needs_taps(dy, ksize):
        taps = math.prod(ksize)
        return _add_taps(shape, ksize, strides, [dy / taps] * taps)
    args = {"grad": dy, "ksize": _around(ksize), "strides": _around(strides), "padding": "VALID"}
    if len(ksize) == 2:
        return tf.raw_ops.AvgPoolGrad(orig_input_shape=shape, **args)
    return tf.raw_ops.AvgPool3DGrad(orig_input_shape=shape, **args)
