"""The coordinates from which a warp fills the voxels of a region, and the box that contains them."""

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation.regions import bounds_of, positions
from mtf_imaging.data.augmentation.rounding import add
from mtf_imaging.data.augmentation.smooth import axis_taps, interpolate, spline_taps
from mtf_imaging.data.sampling.grid import Grid, Region, whole_region

_ROUNDING = 0.01  # in voxels; coordinates up to a million voxels are rounded by less


class Coordinates:
    """The voxel coordinates of a region: `center + affine (p - center) + translation + bend(p)`.

    Sums are computed in one order, so a voxel has the same coordinates in every region.

    Args:
      sizes: size of the sample in voxels along x, y, z.
      region: the voxels; a step selects every n-th voxel.
      affine, translation, bends: the parameters of the warp; see `warp`.
      within: Tensor[3, 2] int64, the start and stop voxels of the stored image if it extends beyond the sample, as
        around a patch; None if it ends with the sample.

    Attributes:
      ends: for each axis, the start and stop voxels of the stored image, as floats or Tensors[] float32.
    """

    def __init__(
        self,
        sizes: Grid,
        region: Region,
        affine: tf.Tensor,
        translation: tf.Tensor,
        bends: tf.Tensor | None,
        within: tf.Tensor | None = None,
    ) -> None:
        self.sizes, self.region = sizes, region
        self._within = bounds_of(whole_region(sizes)) if within is None else within
        self.ends: list = [(0.0, float(size)) for size in sizes]
        if within is not None:
            self.ends = [tuple(tf.unstack(along)) for along in tf.unstack(tf.cast(within, tf.float32))]
        self.affine, self.translation, self.bends = affine, translation, bends
        self.center = (np.array(sizes, np.float32) - 1) / 2
        self.from_center = [
            (at - center).astype(np.float32) for at, center in zip(positions(region), self.center, strict=True)
        ]
        self.taps = None if bends is None else axis_taps(spline_taps, region, sizes, [bends.shape[0]] * 3)

    @property
    def shape(self) -> Grid:
        """The size of the region in voxels along x, y, z."""
        x, y, z = (len(at) for at in self.from_center)
        return x, y, z

    def planes(self) -> "Planes":
        """Returns the terms of the coordinates that all rows share."""
        _, y, z = self.from_center
        from_y, from_z = self.affine[:, 1, None, None] * y[:, None], self.affine[:, 2, None, None] * z
        middle = add(from_y, from_z, (self.center + self.translation)[:, None, None])
        along_x = self.from_center[0][:, None] * self.affine[:, 0]
        if self.bends is None:
            return Planes(along_x, middle, None, None)
        _, taps_y, taps_z = self.taps
        bent = tf.transpose(self.bends, [0, 3, 1, 2])  # [points along x, 3, y, z]
        return Planes(along_x, middle, interpolate(interpolate(bent, taps_z, 3), taps_y, 2), self.taps[0])

    def box(self) -> tf.Tensor:
        """Returns Tensor[3, 2] int64, the start and stop voxels of a box with all voxels that the region needs.

        The box has at least one voxel, even if all coordinates lie beyond the stored image.
        """
        ends = tf.stack([tf.constant([at[0], at[-1]]) for at in self.from_center])  # [3, 2]
        moved = self.affine[:, :, None] * ends
        low, high = (
            self.center + self.translation + tf.reduce_sum(extreme, 1)
            for extreme in (tf.reduce_min(moved, 2), tf.reduce_max(moved, 2))
        )
        if self.bends is not None:  # a B-spline lies between its control points
            x, y, z = (along.needed for along in self.taps)
            low += tf.reduce_min(self.bends[x, y, z], [0, 1, 2])
            high += tf.reduce_max(self.bends[x, y, z], [0, 1, 2])
        start, stop = tf.unstack(self._within, axis=1)
        first = tf.clip_by_value(tf.cast(tf.floor(low - _ROUNDING), tf.int64), start, stop - 1)
        end = tf.clip_by_value(tf.cast(tf.floor(high + _ROUNDING), tf.int64) + 2, first + 1, stop)
        return tf.stack([first, end], 1)


class Planes:
    """Coordinates as sums of a term that depends on x and terms that depend on y and z.

    Args:
      along_x: Tensor[x, 3].
      middle: Tensor[3, y, z].
      bent: Tensor[points, 3, y, z], the bends of the control points along x; None for no bends.
      taps: the taps of x; None for no bends.
    """

    def __init__(self, along_x, middle, bent, taps) -> None:
        self.along_x, self.middle, self.bent = along_x, middle, bent
        self.taps = taps

    def rows(self, index: tf.Tensor) -> tf.Tensor:
        """Returns the coordinates at some positions along x, Tensor[n, 3, y, z]."""
        terms = [tf.gather(self.along_x, index)[:, :, None, None], self.middle]
        if self.bent is not None:
            first, weights = tf.gather(self.taps.first, index), tf.gather(self.taps.weights, index)
            for number in range(self.taps.weights.shape[1]):
                terms.append(tf.gather(self.bent, first + number) * weights[:, number, None, None, None])
        return add(*terms)
