"""Affine and elastic warps: one set of coordinates, at which the image is interpolated and the labels are looked up."""

import math

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.smooth import spline_weights

_SLAB = 1 << 15  # voxels in work at a time: their coordinates and neighbours stay in the caches of a core


def warp(image, labels, affine, translation, bends) -> tuple:
    """Moves what is at `centre + affine (p - centre) + translation + bend(p)` to each voxel p.

    What comes from outside of the volume is 0: the low end of the window, and background.

    Args:
      image: Tensor[x, y, z, channels] float32; interpolated linearly.
      labels: Tensor[x, y, z]; the nearest voxel's.
      affine: Tensor[3, 3] float32.
      translation: Tensor[3] float32, in voxels.
      bends: Tensor[points, points, points, 3] float32, control points of a cubic B-spline in voxels; None for none.

    Returns:
      (image, labels) of the same shapes.
    """
    sizes = x, y, z = image.shape[:3]
    along_x, planes = _coordinates(sizes, affine, translation, bends)
    padded = [_flat(volume) for volume in (*tf.unstack(image, axis=3), labels)]
    thick = max(1, min(x, _SLAB // (y * z)))
    starts = tf.range(0, x, thick)

    def slab(start):
        rows = tf.gather(along_x, tf.minimum(start + tf.range(thick), x - 1))
        found = tf.reshape(tf.matmul(rows, planes), [thick, 3, y * z])
        channels = _sample(padded, sizes, *(found[:, axis] for axis in range(3)))
        return tuple(channels)

    signature = (*[tf.float32] * image.shape[3], labels.dtype)
    warped = tf.map_fn(slab, starts, fn_output_signature=signature)
    *channels, labels = (tf.reshape(tf.reshape(w, [-1, y, z])[:x], sizes) for w in warped)
    return tf.stack(channels, 3), labels


def _coordinates(sizes, affine, translation, bends) -> tuple:
    """Where each voxel comes from, as a product of matrices, because both the affine part and the spline are.

    Returns:
      Tensor[x, terms] and Tensor[terms, 3 * y * z]; their product is the coordinates along x, y, z, of a volume that
      has one more voxel at each end.
    """
    x, y, z = sizes
    centre = (np.array(sizes, np.float32) - 1) / 2
    from_y, from_z = (np.arange(n, dtype=np.float32) - c for n, c in ((y, centre[1]), (z, centre[2])))
    middle = affine[:, 1, None, None] * from_y[:, None] + affine[:, 2, None, None] * from_z
    middle += (centre + translation + 1)[:, None, None]
    slope = tf.broadcast_to(affine[:, 0, None, None], middle.shape)
    along_x = np.stack([np.ones(x, np.float32), np.arange(x, dtype=np.float32) - centre[0]], 1)
    planes = [middle[None], slope[None]]
    if bends is not None:
        weights = [spline_weights(n, bends.shape[0]) for n in sizes]
        along_x = np.concatenate([along_x, weights[0]], 1)
        bent = tf.matmul(tf.transpose(bends, [0, 3, 1, 2]), weights[2], transpose_b=True)
        planes.append(tf.matmul(weights[1], bent))  # [points, 3, y, z]
    return along_x, tf.reshape(tf.concat(planes, 0), [along_x.shape[1], 3 * y * z])


def _flat(volume):
    """Tensor[voxels] of a volume with a border of zeros, which the neighbours of every voxel outside are in."""
    return tf.reshape(tf.pad(volume, [[1, 1]] * 3), [-1])


def _sample(padded, sizes, *coordinates) -> list:
    """Values at coordinates of flat padded volumes: the last is of labels, and the others are interpolated.

    Args:
      padded: as `_flat` gives them.
      sizes: of the volume without its border.
      *coordinates: along x, y, z; Tensor[...] each.

    Returns:
      Tensor[...] for each of `padded`.
    """
    *images, labels = padded
    strides = ((sizes[1] + 2) * (sizes[2] + 2), sizes[2] + 2, 1)
    low = corner = 0
    parts = []
    for at, n, stride in zip(coordinates, sizes, strides, strict=True):
        at = tf.clip_by_value(at, 0.0, n + 1.0)
        floor = tf.minimum(tf.floor(at), float(n))
        part = at - floor
        index = tf.cast(floor, tf.int32)
        low += index * stride
        corner += (index + tf.cast(part + 0.5, tf.int32)) * stride
        parts.append(part)
    nearest = tf.gather(labels, corner)

    def value(image, index, depth=0):
        if depth == 3:
            return tf.gather(image, index)
        first, second = (value(image, index + step, depth + 1) for step in (0, strides[depth]))
        return first + parts[depth] * (second - first)

    return [*(value(image, low) for image in images), nearest]


def draw_warp(draws: Draws, sizes, rotation, zoom, translation, elastic, points) -> tuple:
    """Draws what `warp` takes besides a volume: affine, translation and bends.

    Args:
      draws: of the sample.
      sizes: voxels along x, y, z.
      rotation: largest angles about x, y and z in degrees.
      zoom: how much larger or smaller things may become, as a part of 1.
      translation: largest, as a part of each axis.
      elastic: standard deviation of control points, as a part of each axis; 0 for none.
      points: control points along each axis.
    """
    sizes = np.array(sizes, np.float32)
    angles = draws.uniform("warp/rotation", -1.0, 1.0, [3]) * np.radians(rotation).astype(np.float32)
    factor = tf.exp(draws.uniform("warp/zoom", -1.0, 1.0) * math.log1p(zoom))
    moved = draws.uniform("warp/translation", -translation, translation, [3]) * sizes
    bends = draws.normal("warp/elastic", elastic, shape=[points] * 3 + [3]) * sizes if elastic else None
    return _turn(angles) / factor, moved, bends


def _turn(angles):
    """The matrix of a rotation about x, then y, then z; angles in radians."""
    turn = tf.eye(3)
    for axis in range(3):
        cos, sin = tf.cos(angles[axis]), tf.sin(angles[axis])
        one, none = tf.ones([]), tf.zeros([])
        rows = [[cos, -sin, none], [sin, cos, none], [none, none, one]]  # about z; the others by moving axes on
        about = tf.stack([tf.stack(row) for row in rows])
        turn = tf.matmul(tf.roll(about, [axis + 1, axis + 1], [0, 1]), turn)
    return turn
