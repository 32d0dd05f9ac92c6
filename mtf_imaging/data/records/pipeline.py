"""Reads records as endless, shuffled training batches.

The batches from step k on do not depend on the step at which a run starts.
"""

import dataclasses
import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.data.elements import elements
from mtf_imaging.data.intensities.schemes import Intensity
from mtf_imaging.data.records.batch_region import BatchRegion, batch_region
from mtf_imaging.data.records.manifest import Manifest
from mtf_imaging.data.records.patches import Patches
from mtf_imaging.data.records.region_reader import RegionReader
from mtf_imaging.data.records.samples import Samples
from mtf_imaging.data.sampling.buckets import group_by_grid
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.engine.layout import TensorRegion

_PACKAGE = __name__.partition(".")[0]
_PREFETCH = 2  # batches
# Voxels. Larger samples are read one at a time and one batch ahead, or only when a step needs them. This saves memory.
_MEDIUM, _LARGE = 2**22, 2**26
# The regions of this process in the image and the labels of a batch, by record grid.
RegionsByGrid = Mapping[Grid, Mapping[str, TensorRegion]]


@dataclasses.dataclass(frozen=True)
class BatchReader:
    """Reads the batches of a run.

    Attributes:
      data_dir: records folder.
      batch_size: number of samples in a batch.
      schemes: the intensity scheme of each channel.
      augmentation: the augmentation, or None.
      shuffle: whether to shuffle; if False, every epoch has the order of the manifest.
      regions: the regions of this process; None for whole batches. With patches, the grid is the size of a patch.
      patches: the patches to draw; None for whole records.
    """

    data_dir: str | Path
    batch_size: int
    schemes: Sequence[Intensity]
    augmentation: Callable | None
    shuffle: bool
    regions: RegionsByGrid | None
    patches: Patches | None

    def batches(self, manifest: Manifest, seed: int, start: int, parts: int) -> Iterator[dict]:
        """Yields batches endlessly; `Records.training_batches` describes them and the arguments."""
        if isinstance(manifest.sampling, Sampling) or self.patches is not None:
            return self._read(manifest, seed, start)
        buckets = [_bucket(manifest, at) for at in group_by_grid(manifest.grids).values()]
        cases = [len(bucket.cases) for bucket in buckets]
        turns = bucket_turns(cases, start // parts, seed if self.shuffle else None)
        return _take_turns(self._read, buckets, turns, seed, start % parts, parts, with_sizes=self.regions is not None)

    def _read(self, manifest: Manifest, seed: int, start: int) -> Iterator[dict]:
        """Yields the batches of records with one grid, or of patches, from batch `start` on."""
        grid = self.patches.sizes if self.patches else manifest.grids[0]
        num_cases, batch_size = len(manifest.cases), self.batch_size
        own_regions = self.regions and self.regions[grid]
        region = batch_region(own_regions, batch_size, grid, len(manifest.description.channels))
        reader = RegionReader(self.data_dir, manifest)
        samples = Samples(reader, manifest, self.schemes, self.augmentation, seed, region.box, self.patches)
        width = region.samples.stop - region.samples.start

        @tf.autograph.experimental.do_not_convert
        def case(sample):
            return case_of_sample(sample, num_cases, seed if self.shuffle else None)

        def load(index):
            sample = index // width * batch_size + region.samples.start + index % width
            return samples(sample, case(sample))

        if self.augmentation is None or type(self.augmentation).__module__.partition(".")[0] == _PACKAGE:
            load = tf.autograph.experimental.do_not_convert(load)  # our code does not need the slow conversion
        cases = tf.data.Dataset.range(start * batch_size, tf.int64.max).map(case).batch(batch_size)
        if region.is_empty:
            return _empty_batches(cases, manifest, region)
        voxels = math.prod(part.stop - part.start for part in region.box)
        threads = tf.data.AUTOTUNE if voxels <= _MEDIUM else None
        inputs = tf.data.Dataset.range(start * width, tf.int64.max)
        inputs = inputs.map(load, num_parallel_calls=threads, deterministic=True).batch(width, drop_remainder=True)
        if voxels <= _LARGE:
            inputs = inputs.prefetch(_PREFETCH if threads else 1)
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False  # large samples are not prefetched
        return _batches(tf.data.Dataset.zip((cases, inputs)).with_options(options), manifest, region, reader)


def _bucket(manifest: Manifest, at: Sequence[int]) -> Manifest:
    """Returns a manifest that contains only cases with the same grid."""
    keys = [manifest.cases[number] for number in at]
    sources = {key: manifest.sources[key] for key in keys}
    return dataclasses.replace(manifest, sampling=manifest.case_sampling(keys[0]), sources=sources)


def bucket_turns(sizes: Sequence[int], start: int, seed: int | None) -> Iterator[tuple[int, int]]:
    """Yields, endlessly, the bucket of each turn and the number of its earlier turns.

    Among n consecutive turns that start at a multiple of n, where n is the sum of the sizes, each bucket has as many
    turns as its size.

    Args:
      sizes: number of cases in each bucket.
      start: number of the first turn.
      seed: seed for the order; None keeps the order of the buckets in every cycle.
    """
    of_case = np.repeat(np.arange(len(sizes)), sizes)
    first, skipped = divmod(start, len(of_case))
    for cycle in itertools.count(first):
        turns = np.arange(len(of_case)) + cycle * len(of_case)
        order = [int(case_of_sample(tf.constant(turn, tf.int64), len(of_case), seed)) for turn in turns]
        done = [size * cycle for size in sizes]
        for number, case in enumerate(order):
            bucket = int(of_case[case])
            if cycle > first or number >= skipped:
                yield bucket, done[bucket]
            done[bucket] += 1


def _take_turns(
    read: Callable,
    buckets: Sequence[Manifest],
    turns: Iterator[tuple[int, int]],
    seed: int,
    skipped: int,
    parts: int,
    with_sizes: bool,
) -> Iterator[dict]:
    """Yields `parts` batches of a bucket per turn, without the first `skipped` ones of the first turn."""
    streams: dict[int, Iterator[dict]] = {}
    for bucket, turn in turns:
        if bucket not in streams:
            # A separate seed, so that samples with the same number in two buckets are augmented differently.
            own = zlib.crc32(f"{seed}/{format_grid(buckets[bucket].sampling.grids[0])}".encode()) & 0x7FFFFFFF
            streams[bucket] = read(buckets[bucket], own, turn * parts + skipped)
        (grid,) = buckets[bucket].sampling.grids
        for batch in itertools.islice(streams[bucket], parts - skipped):
            yield {**batch, "sizes": grid} if with_sizes else batch
        skipped = 0


def case_of_sample(sample, num_cases: int, seed: int | None):
    """Returns the case index of a sample.

    Args:
      sample: Tensor[] int64, the sample number, counted from the start of the run.
      num_cases: number of cases in an epoch.
      seed: seed for the order; None for ascending order in every epoch.

    Returns:
      Tensor[] int64 in 0..num_cases-1; each index occurs once per epoch.
    """
    epoch, at = sample // num_cases, sample % num_cases
    if seed is None:
        return at
    epoch_seed = tf.stack([tf.constant(seed, tf.int64), epoch])
    return tf.random.experimental.index_shuffle(at, epoch_seed, tf.constant(num_cases - 1, tf.int64))


def _batches(dataset: tf.data.Dataset, manifest: Manifest, region: BatchRegion, reader: RegionReader) -> Iterator[dict]:
    try:
        for cases, (image, labels) in elements(dataset):
            inputs = {"image": image[region.image], "labels": labels[region.labels]}
            yield {**inputs, "cases": _keys(cases, manifest)}
    except tf.errors.OpError:
        if reader.error is not None:
            raise reader.error from None
        raise


def _empty_batches(dataset: tf.data.Dataset, manifest: Manifest, region: BatchRegion) -> Iterator[dict]:
    """Yields the batches of a process that has no voxels, without reading anything."""
    image, labels = ([part.stop - part.start for part in parts] for parts in (region.image, region.labels))
    for cases in dataset:
        inputs = {"image": tf.zeros(image), "labels": tf.zeros(labels, tf.int32)}
        yield {**inputs, "cases": _keys(cases, manifest)}


def _keys(cases: tf.Tensor, manifest: Manifest) -> list[str]:
    return [manifest.cases[case] for case in cases.numpy()]
