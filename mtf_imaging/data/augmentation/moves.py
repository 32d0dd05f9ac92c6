"""The moves of one sample: the positions of augmented voxels in the stored sample."""

from dataclasses import dataclass

import tensorflow as tf

from mtf_imaging.data.augmentation.coordinates import Coordinates
from mtf_imaging.data.augmentation.mirror import reverse
from mtf_imaging.data.augmentation.regions import bounds_of, crop, mirror_bounds, positions
from mtf_imaging.data.augmentation.warp import warp_labels, warp_region
from mtf_imaging.data.sampling.grid import Grid, Region


@dataclass(frozen=True)
class Moves:
    """A reversal of some axes, followed by a warp.

    Attributes:
      sizes: size of the sample in voxels along x, y, z.
      mirrored: Tensor[3] bool, the axes that are reversed; None if no sample is reversed.
      warped: Tensor[] bool, whether this sample is warped; None if no sample is warped.
      warp: the affine map, the translation and the bends of the warp; see `warp`.
      within: Tensor[3, 2] int64, the bounds of the stored image if it extends beyond the sample; see `Coordinates`.
    """

    sizes: Grid
    mirrored: tf.Tensor | None
    warped: tf.Tensor | None
    warp: tuple
    within: tf.Tensor | None = None

    def source_bounds(self, region: Region) -> tf.Tensor:
        """Returns Tensor[3, 2] int64, the start and stop voxels that a region needs from the stored sample."""
        bounds = bounds_of(region)
        if self.warped is not None:
            bounds = tf.cond(self.warped, lambda: self._coordinates(region).box(), lambda: bounds_of(region))
        return bounds if self.mirrored is None else mirror_bounds(bounds, self.mirrored, self.sizes)

    def move(self, image: tf.Tensor, labels: tf.Tensor, source: tf.Tensor, region: Region, beyond) -> tuple:
        """Returns the (image, labels) of a region.

        Args:
          image: Tensor[x, y, z, channels] float32, the voxels of `source` in the stored sample.
          labels: Tensor[x, y, z] of the same voxels.
          source: Tensor[3, 2] int64, bounds that include `source_bounds(region)`.
          region: a region of the augmented sample.
          beyond: the value of the image beyond the sample; see `warp`.
        """
        if self.mirrored is not None:
            image, labels = (reverse(volume, self.mirrored) for volume in (image, labels))
            source = mirror_bounds(source, self.mirrored, self.sizes)
        start = source[:, 0]

        def unwarped() -> tuple:
            return crop(image, start, region), crop(labels, start, region)

        def warped() -> tuple:
            return warp_region(image, labels, start, self._coordinates(region), beyond)

        return unwarped() if self.warped is None else tf.cond(self.warped, warped, unwarped)

    def labels_at(self, labels: tf.Tensor, voxels: Region) -> tf.Tensor:
        """Returns the moved labels at some voxels, Tensor[x, y, z].

        Args:
          labels: Tensor[x, y, z] of the whole stored sample.
          voxels: the voxels; a step selects every n-th voxel.
        """
        mirrored = tf.zeros([3], tf.bool) if self.mirrored is None else self.mirrored

        def unwarped() -> tf.Tensor:
            moved = labels
            for axis, (at, n) in enumerate(zip(positions(voxels), self.sizes, strict=True)):
                moved = tf.gather(moved, tf.where(mirrored[axis], n - 1 - at, at), axis=axis)
            return moved

        def warped() -> tf.Tensor:
            return warp_labels(labels, mirrored, self._coordinates(voxels))

        return unwarped() if self.warped is None else tf.cond(self.warped, warped, unwarped)

    def _coordinates(self, region: Region) -> Coordinates:
        within = self.within
        if within is not None and self.mirrored is not None:  # the warp follows the reversal
            within = mirror_bounds(within, self.mirrored, self.sizes)
        return Coordinates(self.sizes, region, *self.warp, within)
