"""Computes smooth fields over a volume from a few values along each axis."""

import numpy as np
import tensorflow as tf


def linear_weights(n: int, points: int) -> np.ndarray:
    """Returns weights that interpolate `points` values linearly to the `n` voxels of an axis.

    The axis is divided into `points` equal intervals, with one value in the middle of each.

    >>> linear_weights(4, 2)[:, 0]
    array([1.  , 0.75, 0.25, 0.  ], dtype=float32)

    Returns:
      float32 `[n, points]`; each row sums to 1.
    """
    at = np.clip((np.arange(n) + 0.5) / n * points - 0.5, 0, points - 1)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(points))).astype(np.float32)


def spline_weights(n: int, points: int) -> np.ndarray:
    """Returns weights of a uniform cubic B-spline of `points` control points at the `n` voxels of an axis.

    The spline has `points - 3` intervals.

    >>> spline_weights(4, 5).sum(1).tolist()
    [1.0, 1.0, 1.0, 1.0]

    Returns:
      float32 `[n, points]`; each row sums to 1.
    """
    at = (np.arange(n) + 0.5) / n * (points - 3) + 1  # control point j lies at j
    distance = np.abs(at[:, None] - np.arange(points))
    near, far = 2 / 3 - distance**2 + distance**3 / 2, np.maximum(2 - distance, 0) ** 3 / 6
    return np.where(distance < 1, near, far).astype(np.float32)


def spread(values, x, y, z):
    """Returns a field over the volume, computed with one matrix per axis.

    Args:
      values: Tensor[a, b, c].
      x, y, z: weights `[x, a]`, `[y, b]`, `[z, c]`.

    Returns:
      Tensor[x, y, z], the sum over a, b, c of `x[x, a] * y[y, b] * z[z, c] * values[a, b, c]`.
    """
    plane = tf.matmul(y, tf.matmul(values, z, transpose_b=True))  # [a, y, z]
    rows = tf.matmul(x, tf.reshape(plane, [plane.shape[0], -1]))
    return tf.reshape(rows, [len(x), len(y), len(z)])


def linear_field(values, sizes):
    """Interpolates Tensor[a, b, c] linearly to Tensor[x, y, z] of `sizes` voxels."""
    return spread(values, *(linear_weights(n, points) for n, points in zip(sizes, values.shape, strict=True)))
