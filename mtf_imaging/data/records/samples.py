"""Reads, scales and augments a region of a sample in a TensorFlow graph."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.augmentation.regions import bounds_of, shape_of
from mtf_imaging.data.augmentation.value_ranges import WINDOWED
from mtf_imaging.data.intensities import WINDOW, Intensity
from mtf_imaging.data.records.channel_maps import channel_maps
from mtf_imaging.data.records.manifest import Manifest, is_plain_lits
from mtf_imaging.data.records.region_reader import RegionReader
from mtf_imaging.data.sampling.grid import Region, whole_region


class Samples:
    """Reads a region of the samples of a run.

    An `Augmentation` states which voxels of the record the region needs, and only these are read. A custom function
    changes whole samples, from which the region is cut.

    Args:
      reader: the reader of the records.
      manifest: the records, all with the same grid.
      schemes: the intensity scheme of each channel.
      augmentation: an `Augmentation`, another function (image, labels, seed, sample) -> (image, labels), or None.
      seed: seed of the run.
      region: the region of the augmented samples along x, y, z.
    """

    def __init__(
        self,
        reader: RegionReader,
        manifest: Manifest,
        schemes: Sequence[Intensity],
        augmentation: Callable | None,
        seed: int,
        region: Region,
    ) -> None:
        self._reader, self._augmentation, self._seed, self._region = reader, augmentation, seed, region
        (self._grid,) = manifest.sampling.grids
        self._as_input = _network_input(manifest, schemes)
        # A derived class may augment whole samples in a way of its own.
        self._by_region = (
            isinstance(augmentation, Augmentation) and type(augmentation).__call__ is Augmentation.__call__
        )

    def __call__(self, sample, case) -> tuple:
        """Returns the region of a sample.

        Args:
          sample: Tensor[] int64, the number of the sample since the run began.
          case: Tensor[] int64, the number of its case.

        Returns:
          The image, Tensor[x, y, z, channels] float32, and the labels, Tensor[x, y, z] int32, with static shapes.
        """
        whole = bounds_of(whole_region(self._grid))
        if self._augmentation is None:
            bounds = label_bounds = bounds_of(self._region)
        elif self._by_region:
            bounds = self._augmentation.source_bounds(self._region, self._grid, self._seed, sample)
            label_bounds = whole if self._augmentation.needs_whole_labels else bounds
        else:
            bounds = label_bounds = whole
        values, labels = self._reader(case, bounds, label_bounds)
        image, ranges = self._as_input(values, case)
        image, labels = self._augmented(image, labels, sample, bounds, ranges)
        shape = shape_of(self._region)
        return tf.ensure_shape(image, [*shape, image.shape[3]]), tf.ensure_shape(tf.cast(labels, tf.int32), shape)

    def _augmented(self, image, labels, sample, bounds, ranges) -> tuple:
        if self._augmentation is None:
            return image, labels
        if self._by_region:
            where = {"region": self._region, "source": bounds, "sizes": self._grid}
            return self._augmentation.in_region(image, labels, self._seed, sample, **where, ranges=ranges)
        image, labels = tf.ensure_shape(image, [*self._grid, image.shape[3]]), tf.ensure_shape(labels, self._grid)
        # Custom functions do not know the argument `ranges`.
        more = {"ranges": ranges} if isinstance(self._augmentation, Augmentation) else {}
        image, labels = self._augmentation(image, labels, self._seed, sample, **more)
        return image[self._region], labels[self._region]


def _network_input(manifest: Manifest, schemes: Sequence[Intensity]) -> Callable:
    """Returns a function of the stored values and the number of a case.

    It returns the image, Tensor[x, y, z, channels] float32, and the `ValueRanges` of the case.
    """
    if is_plain_lits(manifest.description) and schemes[0].kind == WINDOW:
        low, high = (np.float32(bound) for bound in schemes[0].window)

        def windowed(hu, case):
            del case  # all cases have the same window
            return tf.clip_by_value((tf.cast(hu, tf.float32) - low) / (high - low), 0.0, 1.0)[..., tf.newaxis], WINDOWED

        return windowed
    maps = channel_maps(manifest, schemes)

    def scaled(values, case):
        values = values if values.shape.rank == 4 else values[..., tf.newaxis]
        own = maps.row(case)
        return own.apply(tf.cast(values, tf.float32)), own.ranges

    return scaled
