"""Regions of a sample: the part that one processor computes, and the stored voxels that it needs."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.errors import DataError


def static_sizes(image: object) -> Grid:
    """Returns the sizes x, y, z of Tensor[x, y, z, channels]; raises DataError if its shape is not static."""
    if image.shape.rank != 4 or not image.shape.is_fully_defined():
        raise DataError(
            f"Augmentation: an image of shape {image.shape} does not have static sizes of x, y, z and channels. "
            "Fix: call image.set_shape([x, y, z, channels])."
        )
    x, y, z, _ = image.shape
    return x, y, z


def check_region(region: Sequence[slice], sizes: Grid) -> Region:
    """Returns `region` with explicit bounds.

    Args:
      region: a slice of each axis, with step 1 or None.
      sizes: size of the sample in voxels along x, y, z.

    Raises:
      DataError: a slice has a step other than 1, or is not within the sample.
    """
    bounds = [(at.start or 0, n if at.stop is None else at.stop) for at, n in zip(region, sizes, strict=True)]
    is_inside = all(0 <= start <= stop <= n for (start, stop), n in zip(bounds, sizes))
    if not is_inside or any(at.step not in (None, 1) for at in region):
        raise DataError(
            f"Augmentation: the region {region} is not within the sizes {sizes}, or a step is not 1. "
            "Fix: give slices (start, stop) within the sample."
        )
    x, y, z = (slice(*along) for along in bounds)
    return x, y, z


def shape_of(region: Region) -> Grid:
    """Returns the size of a region in voxels along x, y, z."""
    x, y, z = (along.stop - along.start for along in region)
    return x, y, z


def positions(region: Region) -> list[np.ndarray]:
    """Returns the voxel positions of a region along x, y and z; a step selects every n-th voxel."""
    return [np.arange(along.start, along.stop, along.step) for along in region]


def bounds_of(region: Region) -> tf.Tensor:
    """Returns Tensor[3, 2] int64, the start and stop voxels of a region along x, y, z."""
    return tf.constant([[along.start, along.stop] for along in region], tf.int64)


def mirror_bounds(bounds: tf.Tensor, mirrored: tf.Tensor, sizes: Grid) -> tf.Tensor:
    """Returns the bounds of the same voxels after mirroring some axes.

    Args:
      bounds: Tensor[3, 2] int64.
      mirrored: Tensor[3] bool.
      sizes: size of the sample in voxels along x, y, z.
    """
    opposite = tf.constant(sizes, tf.int64)[:, tf.newaxis] - tf.reverse(bounds, [1])
    return tf.where(mirrored[:, tf.newaxis], opposite, bounds)


def crop(volume: tf.Tensor, start: tf.Tensor, region: Region) -> tf.Tensor:
    """Returns a region of a volume that begins at voxel `start` of the sample.

    Args:
      volume: Tensor[x, y, z, ...]; only the dimensions after z must have static sizes.
      start: Tensor[3] int64.
      region: a region within the volume.
    """
    more = volume.shape.rank - 3
    first = bounds_of(region)[:, 0] - start
    begin = tf.concat([first, tf.zeros([more], tf.int64)], 0)
    return tf.slice(volume, begin, [*shape_of(region), *volume.shape[3:]])
