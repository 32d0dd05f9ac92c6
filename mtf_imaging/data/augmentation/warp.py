"""Warps samples by affine and elastic transforms.

The interpolation of the image and the lookup of the labels use the same coordinates.
"""

import math

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.coordinates import Coordinates
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.rounding import add
from mtf_imaging.data.sampling.grid import whole_region

_SLAB = 1 << 15  # voxels computed at a time; their coordinates and neighbors fit into a core's caches


def warp(image, labels, affine, translation, bends, beyond=0.0) -> tuple:
    """Fills each voxel p with the value at `center + affine (p - center) + translation + bend(p)`.

    Outside the volume, the image is `beyond` and the labels are 0 (background).

    Args:
      image: Tensor[x, y, z, channels] float32, interpolated linearly.
      labels: Tensor[x, y, z], taken from the nearest voxel.
      affine: Tensor[3, 3] float32.
      translation: Tensor[3] float32, in voxels.
      bends: Tensor[points, points, points, 3] float32, control point displacements, in voxels, of a cubic
        B-spline; None for no elastic displacement.
      beyond: the value outside the volume: a number, by default the low end of a window, or Tensor[channels].

    Returns:
      The warped (image, labels), with the same shapes.
    """
    sizes = tuple(image.shape[:3])
    coordinates = Coordinates(sizes, whole_region(sizes), affine, translation, bends)
    return warp_region(image, labels, tf.zeros([3], tf.int64), coordinates, beyond)


def warp_region(image, labels, start, coordinates: Coordinates, beyond=0.0) -> tuple:
    """Warps the region of `coordinates`; see `warp`.

    Args:
      image: Tensor[x, y, z, channels] float32, with the voxels of `coordinates.box()`.
      labels: Tensor[x, y, z], of the same voxels.
      start: Tensor[3] int64, the position of their first voxel in the sample.
      coordinates: the coordinates of the region.
      beyond: the value outside the sample; see `warp`.

    Returns:
      The (image, labels) of the region.
    """
    x, y, z = shape = coordinates.shape
    channels = tf.unstack(image, axis=3)
    outside = tf.unstack(beyond) if tf.is_tensor(beyond) else [beyond] * len(channels)
    padded = [*map(_flat, channels, outside), _flat(labels, 0)]
    box = tf.shape(labels) + 2
    strides = (box[1] * box[2], box[2], 1)
    begin = tf.unstack(tf.cast(start, tf.int32))
    planes = coordinates.planes()
    thick = max(1, min(x, _SLAB // (y * z)))
    starts = tf.range(0, x, thick)

    def slab(start):
        rows = planes.rows(tf.minimum(start + tf.range(thick), x - 1))
        return tuple(_sample(padded, coordinates.ends, begin, strides, *tf.unstack(rows, axis=1)))

    signature = (*[tf.float32] * len(channels), labels.dtype)
    warped = tf.map_fn(slab, starts, fn_output_signature=signature)
    *channels, labels = (tf.reshape(tf.reshape(w, [-1, y, z])[:x], shape) for w in warped)
    return tf.stack(channels, 3), labels


def warp_labels(labels, mirrored, coordinates: Coordinates):
    """Returns the warped labels at `coordinates`.

    Args:
      labels: Tensor[x, y, z], of the whole sample.
      mirrored: Tensor[3] bool, the axes along which the sample is reversed before the warp.
      coordinates: the coordinates of the voxels.

    Returns:
      Tensor[x, y, z].
    """
    sizes = coordinates.sizes
    rows = coordinates.planes().rows(tf.range(coordinates.shape[0]))
    inside, index = True, 0
    for axis, (at, n) in enumerate(zip(tf.unstack(rows, axis=1), sizes, strict=True)):
        floor, part = _floor_and_part(at, 0.0, float(n))
        nearest = floor + tf.cast(part + 0.5, tf.int32) - 1  # without the border
        inside &= (nearest >= 0) & (nearest < n)
        index = index * n + tf.clip_by_value(tf.where(mirrored[axis], n - 1 - nearest, nearest), 0, n - 1)
    return tf.where(inside, tf.gather(tf.reshape(labels, [-1]), index), tf.zeros([], labels.dtype))


def _flat(volume, beyond):
    """Adds a border of `beyond` to a volume and flattens it to Tensor[voxels]; outside coordinates use the border."""
    return tf.reshape(tf.pad(volume, [[1, 1]] * 3, constant_values=beyond), [-1])


def _floor_and_part(at, first, end) -> tuple:
    """Splits coordinates along an axis.

    Args:
      at: coordinates, Tensor[...].
      first, end: the start and stop voxels of the image; coordinates outside are clipped to a border of one voxel.

    Returns:
      The integer part, Tensor[...] int32, counted from one voxel before voxel 0, and the rest.
    """
    at = tf.clip_by_value(at + 1.0, first, end + 1.0)
    floor = tf.minimum(tf.floor(at), end)
    return tf.cast(floor, tf.int32), at - floor


def _sample(padded, ends, begin, strides, *coordinates) -> list:
    """Samples flat padded volumes: image channels by interpolation, labels at the nearest voxel.

    Args:
      padded: results of `_flat`, the channels of the image followed by the labels.
      ends: for each axis, the start and stop voxels of the whole image.
      begin: the position of the first voxel of the volumes in the sample.
      strides: the distances between neighbors along x, y, z in the padded volumes.
      *coordinates: coordinates along x, y and z, Tensor[...] each.

    Returns:
      A list with one Tensor[...] for each of `padded`.
    """
    *images, labels = padded
    low = corner = -(begin[0] * strides[0] + begin[1] * strides[1] + begin[2])
    parts = []
    for at, (first, end), stride in zip(coordinates, ends, strides, strict=True):
        index, part = _floor_and_part(at, first, end)
        low += index * stride
        corner += (index + tf.cast(part + 0.5, tf.int32)) * stride
        parts.append(part)
    nearest = tf.gather(labels, corner)

    def value(image, index, depth=0):
        if depth == 3:
            return tf.gather(image, index)
        first, second = (value(image, index + step, depth + 1) for step in (0, strides[depth]))
        return add(first, parts[depth] * (second - first))

    return [*(value(image, low) for image in images), nearest]


def draw_warp(draws: Draws, sizes, rotation, zoom, translation, elastic, points) -> tuple:
    """Draws the parameters of `warp`.

    Args:
      draws: random numbers of the sample.
      sizes: number of voxels along x, y, z.
      rotation: largest angles about x, y and z in degrees.
      zoom: the image is scaled by a factor from 1 / (1 + zoom)..1 + zoom.
      translation: largest translation, as a fraction of each axis's length.
      elastic: standard deviation of control point displacements, as a fraction of each axis's length;
        0 for no elastic displacement.
      points: number of control points along each axis.

    Returns:
      (affine, translation, bends), as in `warp`.
    """
    sizes = np.array(sizes, np.float32)
    angles = draws.uniform("warp/rotation", -1.0, 1.0, [3]) * np.radians(rotation).astype(np.float32)
    factor = tf.exp(draws.uniform("warp/zoom", -1.0, 1.0) * math.log1p(zoom))
    moved = draws.uniform("warp/translation", -translation, translation, [3]) * sizes
    bends = draws.normal("warp/elastic", elastic, shape=[points] * 3 + [3]) * sizes if elastic else None
    return _turn(angles) / factor, moved, bends


def _turn(angles):
    """Returns the matrix of a rotation about x, then y, then z; angles are in radians."""
    turn = tf.eye(3)
    for axis in range(3):
        cos, sin = tf.cos(angles[axis]), tf.sin(angles[axis])
        one, none = tf.ones([]), tf.zeros([])
        rows = [
            [cos, -sin, none],
            [sin, cos, none],
            [none, none, one],
        ]  # a rotation about z, which tf.roll turns into one about the axis
        about = tf.stack([tf.stack(row) for row in rows])
        turn = tf.matmul(tf.roll(about, [axis + 1, axis + 1], [0, 1]), turn)
    return turn
