"""Warps samples by affine and elastic transforms.

The interpolation of the image and the lookup of the labels use the same coordinates.
"""

import math

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.augmentation.smooth import spline_weights

_SLAB = 1 << 15  # voxels computed at a time; their coordinates and neighbors fit into the caches of a core


def warp(image, labels, affine, translation, bends, beyond=0.0) -> tuple:
    """Fills each voxel p with the value at `center + affine (p - center) + translation + bend(p)`.

    Outside the volume, the image is `beyond` and the labels are 0 (background).

    Args:
      image: Tensor[x, y, z, channels] float32, interpolated linearly.
      labels: Tensor[x, y, z], taken from the nearest voxel.
      affine: Tensor[3, 3] float32.
      translation: Tensor[3] float32, in voxels.
      bends: Tensor[points, points, points, 3] float32, displacements in voxels of the control points of a cubic
        B-spline; None for no elastic displacement.
      beyond: the value outside the volume: a number, by default the low end of a window, or Tensor[channels].

    Returns:
      The warped (image, labels), with the same shapes.
    """
    sizes = x, y, z = image.shape[:3]
    along_x, planes = _coordinates(sizes, affine, translation, bends)
    channels = tf.unstack(image, axis=3)
    outside = tf.unstack(beyond) if tf.is_tensor(beyond) else [beyond] * len(channels)
    padded = [*map(_flat, channels, outside), _flat(labels, 0)]
    thick = max(1, min(x, _SLAB // (y * z)))
    starts = tf.range(0, x, thick)

    def slab(start):
        rows = tf.gather(along_x, tf.minimum(start + tf.range(thick), x - 1))
        positions = tf.reshape(tf.matmul(rows, planes), [thick, 3, y * z])
        return tuple(_sample(padded, sizes, *(positions[:, axis] for axis in range(3))))

    signature = (*[tf.float32] * image.shape[3], labels.dtype)
    warped = tf.map_fn(slab, starts, fn_output_signature=signature)
    *channels, labels = (tf.reshape(tf.reshape(w, [-1, y, z])[:x], sizes) for w in warped)
    return tf.stack(channels, 3), labels


def _coordinates(sizes, affine, translation, bends) -> tuple:
    """Computes the source coordinates of each voxel as two factors of a matrix product.

    Both the affine transform and the spline are such products.

    Returns:
      Tensor[x, terms] and Tensor[terms, 3 * y * z]. Their product has the coordinates along x, y and z, in a volume
      with one additional voxel at each end.
    """
    x, y, z = sizes
    center = (np.array(sizes, np.float32) - 1) / 2
    from_y, from_z = (np.arange(n, dtype=np.float32) - c for n, c in ((y, center[1]), (z, center[2])))
    middle = affine[:, 1, None, None] * from_y[:, None] + affine[:, 2, None, None] * from_z
    middle += (center + translation + 1)[:, None, None]
    slope = tf.broadcast_to(affine[:, 0, None, None], middle.shape)
    along_x = np.stack([np.ones(x, np.float32), np.arange(x, dtype=np.float32) - center[0]], 1)
    planes = [middle[None], slope[None]]
    if bends is not None:
        weights = [spline_weights(n, bends.shape[0]) for n in sizes]
        along_x = np.concatenate([along_x, weights[0]], 1)
        bent = tf.matmul(tf.transpose(bends, [0, 3, 1, 2]), weights[2], transpose_b=True)
        planes.append(tf.matmul(weights[1], bent))  # [points, 3, y, z]
    return along_x, tf.reshape(tf.concat(planes, 0), [along_x.shape[1], 3 * y * z])


def _flat(volume, beyond):
    """Returns a volume with a border of `beyond` as Tensor[voxels]; coordinates outside are clipped to the border."""
    return tf.reshape(tf.pad(volume, [[1, 1]] * 3, constant_values=beyond), [-1])


def _sample(padded, sizes, *coordinates) -> list:
    """Samples flat padded volumes: channels of the image by interpolation, labels at the nearest voxel.

    Args:
      padded: results of `_flat`, the channels of the image followed by the labels.
      sizes: sizes of the volume without its border.
      *coordinates: coordinates along x, y and z, Tensor[...] each.

    Returns:
      A list with one Tensor[...] for each of `padded`.
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
    """Draws the parameters of `warp`.

    Args:
      draws: random numbers of the sample.
      sizes: number of voxels along x, y, z.
      rotation: largest angles about x, y and z in degrees.
      zoom: the image is scaled by a factor from 1 / (1 + zoom)..1 + zoom.
      translation: largest translation, as a fraction of the length of each axis.
      elastic: standard deviation of the displacement of the control points, as a fraction of the length of each axis;
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
        ]  # a rotation about z, which tf.roll moves to the axis
        about = tf.stack([tf.stack(row) for row in rows])
        turn = tf.matmul(tf.roll(about, [axis + 1, axis + 1], [0, 1]), turn)
    return turn
