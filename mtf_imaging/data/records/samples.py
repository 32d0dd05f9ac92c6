"""Reads, scales and augments a region of a sample in a TensorFlow graph."""

import inspect
from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.augmentation.regions import bounds_of, shape_of
from mtf_imaging.data.intensities.schemes import Intensity
from mtf_imaging.data.records.intensities import network_input
from mtf_imaging.data.records.manifest import Manifest
from mtf_imaging.data.records.patches import PatchCorners, Patches
from mtf_imaging.data.records.region_reader import RegionReader
from mtf_imaging.data.sampling.grid import Region, whole_region


class Samples:
    """Reads a region of each sample in a run.

    An `Augmentation` determines which voxels of the record the region needs, and only these are read. A custom function
    changes a whole sample, from which the region is cut.

    A sample is a record or a patch of it. Positions are counted from the first voxel of the sample.

    Args:
      reader: the reader of the records.
      manifest: the records, all with the same grid unless there are patches.
      schemes: the intensity scheme of each channel.
      augmentation: an `Augmentation`, another function (image, labels, seed, sample) -> (image, labels), or None.
      seed: the run's seed.
      region: the region of the augmented samples along x, y, z.
      patches: the patches of the records that are the samples; None for whole records.
    """

    def __init__(
        self,
        reader: RegionReader,
        manifest: Manifest,
        schemes: Sequence[Intensity],
        augmentation: Callable | None,
        seed: int,
        region: Region,
        patches: Patches | None = None,
    ) -> None:
        self._reader, self._augmentation, self._seed, self._region = reader, augmentation, seed, region
        self._grids = tf.constant(manifest.grids, tf.int64)
        self._sizes = patches.sizes if patches else manifest.grids[0]
        self._corners = PatchCorners(patches, reader, manifest, seed) if patches else None
        self._as_input = network_input(manifest, schemes)
        # A derived class may augment whole samples differently.
        self._by_region = (
            isinstance(augmentation, Augmentation)
            and type(augmentation).__call__ is Augmentation.__call__
            # A derived class may support only whole images as samples; it then changes whole patches.
            and (patches is None or "within" in inspect.signature(augmentation.source_bounds).parameters)
        )

    def __call__(self, sample, case) -> tuple:
        """Returns the region of a sample.

        Args:
          sample: Tensor[] int64, the sample number, counted from the start of the run.
          case: Tensor[] int64, the number of its case.

        Returns:
          The image, Tensor[x, y, z, channels] float32, and the labels, Tensor[x, y, z] int32, with static shapes.
        """
        whole, around = bounds_of(whole_region(self._sizes)), {}
        corner = tf.zeros([3], tf.int64) if self._corners is None else self._corners(sample, case)
        if self._corners is not None:
            around["within"] = tf.stack([-corner, tf.gather(self._grids, case) - corner], 1)
        if self._augmentation is None:
            bounds = label_bounds = bounds_of(self._region)
        elif self._by_region:
            bounds = self._augmentation.source_bounds(self._region, self._sizes, self._seed, sample, **around)
            label_bounds = bounds
            if self._augmentation.needs_whole_labels:
                label_bounds = whole if self._corners is None else _both(bounds, whole)
                around |= {"labels_start": label_bounds[:, 0]} if around else {}
        else:
            bounds = label_bounds = whole
        values, labels = self._reader(case, *(each + corner[:, tf.newaxis] for each in (bounds, label_bounds)))
        image, ranges = self._as_input(values, case)
        image, labels = self._augmented(image, labels, sample, bounds, ranges, around)
        shape = shape_of(self._region)
        return tf.ensure_shape(image, [*shape, image.shape[3]]), tf.ensure_shape(tf.cast(labels, tf.int32), shape)

    def _augmented(self, image, labels, sample, bounds, ranges, around) -> tuple:
        if self._augmentation is None:
            return image, labels
        if self._by_region:
            where = {"region": self._region, "source": bounds, "sizes": self._sizes, **around}
            return self._augmentation.in_region(image, labels, self._seed, sample, **where, ranges=ranges)
        image, labels = tf.ensure_shape(image, [*self._sizes, image.shape[3]]), tf.ensure_shape(labels, self._sizes)
        # Custom functions do not have the argument `ranges`.
        more = {"ranges": ranges} if isinstance(self._augmentation, Augmentation) else {}
        image, labels = self._augmentation(image, labels, self._seed, sample, **more)
        return image[self._region], labels[self._region]


def _both(bounds: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Returns the bounds of the smallest box that contains two boxes, Tensor[3, 2] int64 each."""
    return tf.stack([tf.minimum(bounds[:, 0], other[:, 0]), tf.maximum(bounds[:, 1], other[:, 1])], 1)
