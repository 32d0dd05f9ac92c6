"""Computes smooth fields over a region of a sample from a few values along each axis.

A field is a sum of products that are computed one after the other, so a voxel has the same value in every region. In a
matrix product, the order of summation would depend on the shape of the matrices.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.rounding import add
from mtf_imaging.data.sampling.grid import Region


class Taps(NamedTuple):
    """The values along an axis from which each voxel is interpolated.

    Attributes:
      first: int `[voxels]`, the index of the first value.
      weights: float32 `[voxels, taps]`, the weights of this and the following values; each row sums to 1.
    """

    first: np.ndarray
    weights: np.ndarray

    @property
    def needed(self) -> slice:
        """The range of values that the voxels need."""
        return slice(int(self.first.min()), int(self.first.max()) + self.weights.shape[1])

    def after(self, start: int) -> "Taps":
        """Returns the same taps after the first `start` values are dropped."""
        return Taps(self.first - start, self.weights)


def linear_taps(positions: np.ndarray, n: int, points: int) -> Taps:
    """Returns taps that interpolate `points` values linearly to the voxels of an axis.

    The axis is divided into `points` equal intervals, with one value in the middle of each.

    >>> linear_taps(np.arange(4), 4, 2).weights[:, 0]
    array([1.  , 0.75, 0.25, 0.  ], dtype=float32)

    Args:
      positions: the voxels at which values are interpolated.
      n: number of voxels along the axis.
      points: number of values.
    """
    at = np.clip((positions + 0.5) / n * points - 0.5, 0, points - 1)
    first = np.minimum(np.floor(at), max(0, points - 2)).astype(np.int32)
    part = (at - first)[:, None]
    return Taps(first, np.concatenate([1 - part, part], 1)[:, :points].astype(np.float32))


def spline_taps(positions: np.ndarray, n: int, points: int) -> Taps:
    """Returns taps of a uniform cubic B-spline with `points` control points, at the voxels of an axis.

    The spline has `points - 3` intervals.

    >>> spline_taps(np.arange(4), 4, 5).weights.sum(1).tolist()
    [1.0, 1.0, 1.0, 1.0]

    Args:
      positions: the voxels at which values are interpolated.
      n: number of voxels along the axis.
      points: number of control points.
    """
    at = (positions + 0.5) / n * (points - 3) + 1  # control point j lies at j
    first = (np.floor(at) - 1).astype(np.int32)
    distance = np.abs((at - first)[:, None] - np.arange(4))
    near, far = 2 / 3 - distance**2 + distance**3 / 2, np.maximum(2 - distance, 0) ** 3 / 6
    return Taps(first, np.where(distance < 1, near, far).astype(np.float32))


def interpolate(values: tf.Tensor, taps: Taps, axis: int) -> tf.Tensor:
    """Interpolates along one axis of Tensor[...]; the axis then has one element per voxel."""
    terms = []
    for number, weights in enumerate(taps.weights.T):
        factors = weights.reshape([-1] + [1] * (values.shape.rank - 1 - axis))
        terms.append(tf.gather(values, taps.first + number, axis=axis) * factors)
    return add(*terms)


def spread(values: tf.Tensor, taps: list[Taps]) -> tf.Tensor:
    """Interpolates Tensor[a, b, c] to Tensor[x, y, z], with the taps of x, y and z."""
    for axis in (2, 1, 0):  # the last pass copies whole planes
        values = interpolate(values, taps[axis], axis)
    return values


def axis_taps(kind, region: Region, sizes, points) -> list[Taps]:
    """Returns the taps of x, y and z at the voxels of a region.

    Args:
      kind: `linear_taps` or `spline_taps`.
      region: a region of the sample; a step selects every n-th voxel.
      sizes: size of the sample in voxels along x, y, z.
      points: number of values along x, y, z.
    """
    return [
        kind(np.arange(along.start, along.stop, along.step), n, count)
        for along, n, count in zip(region, sizes, points, strict=True)
    ]
