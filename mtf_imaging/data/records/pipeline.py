"""Reads records as endless, shuffled training batches.

The batches from step k on do not depend on the step at which a run starts.
"""

import dataclasses
import functools
import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.intensities import WINDOW, Intensity
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window, check_window
from mtf_imaging.data.records.channel_maps import channel_maps, resolve_intensities
from mtf_imaging.data.records.formats import TFRECORD
from mtf_imaging.data.records.manifest import Manifest, has_hu, is_plain_lits, open_records
from mtf_imaging.data.records.stored import open_record, read_record
from mtf_imaging.data.sampling.buckets import group_by_grid
from mtf_imaging.data.sampling.grid import format_grid, parse_grid
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError

_PREFETCH = 2  # batches


def training_batches(
    data_dir: str | Path,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    *,
    resolution: str | int | None = None,
    spacing: str | None = None,
    window: Window = DEFAULT_WINDOW,
    augmentation: Callable | None = None,
    shuffle: bool = True,
    intensities: Mapping[str, str] | None = None,
    parts: int = 1,
) -> Iterator[dict]:
    """Yields batches without end.

    With n cases, sample s of a run belongs to batch s // batch_size and epoch s // n. It is element s % n of a
    permutation of the cases that depends only on the seed and the epoch, so no earlier sample has to be computed.
    Batches continue across the ends of epochs, so a batch may have more samples than there are cases.

    If the records have several grids, all samples of a batch have the same grid. The batches of each grid are those of
    a folder with only the cases of this grid. Among n batches in a row from a multiple of n on, each grid occurs as
    often as it has cases, so all cases occur equally often. The order of the grids depends only on the seed.

    Args:
      data_dir: folder of records.
      batch_size: number of samples in a batch.
      seed: seed of the order and of the augmentation.
      start_step: number of the first batch. The batches are the same as in a run that starts at step 0.
      resolution: the required grid of the records, in the format of `parse_grid`; None accepts any grid.
      spacing: the required spacing of the records; see `open_records`. None accepts any spacing.
      window: (low, high) in HU of channels of CT, mapped to 0..1 and clipped; see `resolve_intensities`.
      augmentation: the augmentation, or None.
      shuffle: whether to shuffle; if False, every epoch has the order of the manifest.
      intensities: {channel: intensity scheme} of channels with another scheme than the manifest names.
      parts: the number of batches in a row with the same grid, for micro-batches.

    Yields:
      `{"image": Tensor[batch, x, y, z, channels] float32, "labels": Tensor[batch, x, y, z] int32, "cases": list of
      keys}`.

    Raises:
      DataError: the folder does not contain a complete set of records with this sampling, `batch_size` is below 1, or
        `start_step` is below 0. The iterator raises it if a record is damaged or does not match the manifest.
      ConfigError: `intensities` names an unknown channel, or the augmentation needs labels that the records lack.
    """
    if batch_size < 1 or start_step < 0:
        raise DataError(
            f"batch_size {batch_size}, start_step {start_step}: the batch size must be at least 1, and the start step "
            "at least 0. Fix: choose values in this range."
        )
    window = check_window(window)
    manifest = open_records(data_dir, None if resolution is None else parse_grid(resolution), spacing)
    schemes = resolve_intensities(manifest, window, intensities)
    if isinstance(augmentation, Augmentation):
        augmentation.check(dataclasses.replace(manifest.description, intensities=schemes))
    read = functools.partial(
        _read, data_dir, batch_size=batch_size, schemes=schemes, augmentation=augmentation, shuffle=shuffle
    )
    if isinstance(manifest.sampling, Sampling):
        return read(manifest, seed=seed, start=start_step)
    buckets = [_bucket(manifest, at) for at in group_by_grid(manifest.grids).values()]
    turns = bucket_turns([len(bucket.cases) for bucket in buckets], start_step // parts, seed if shuffle else None)
    return _take_turns(read, buckets, turns, seed, start_step % parts, parts)


def _bucket(manifest: Manifest, at: Sequence[int]) -> Manifest:
    """Returns a manifest with some of the cases, whose records have the same grid."""
    keys = [manifest.cases[number] for number in at]
    sources = {key: manifest.sources[key] for key in keys}
    return dataclasses.replace(manifest, sampling=manifest.case_sampling(keys[0]), sources=sources)


def bucket_turns(sizes: Sequence[int], start: int, seed: int | None) -> Iterator[tuple[int, int]]:
    """Yields the bucket of each turn and the number of its earlier turns, without end.

    Among n turns in a row from a multiple of n on, where n is the sum of the sizes, each bucket has as many turns as
    its size.

    Args:
      sizes: number of cases in each bucket.
      start: number of the first turn.
      seed: seed of the order; None for the order of the buckets in every cycle.
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
    read: Callable, buckets: Sequence[Manifest], turns: Iterator[tuple[int, int]], seed: int, skipped: int, parts: int
) -> Iterator[dict]:
    """Yields `parts` batches of a bucket per turn, without the first `skipped` ones of the first turn."""
    streams: dict[int, Iterator[dict]] = {}
    for bucket, turn in turns:
        if bucket not in streams:
            # A seed of its own, so that the same sample of two buckets is augmented differently.
            own = zlib.crc32(f"{seed}/{format_grid(buckets[bucket].sampling.grids[0])}".encode()) & 0x7FFFFFFF
            streams[bucket] = read(buckets[bucket], seed=own, start=turn * parts + skipped)
        yield from itertools.islice(streams[bucket], parts - skipped)
        skipped = 0


def _read(
    data_dir: str | Path,
    manifest: Manifest,
    *,
    batch_size: int,
    schemes: Sequence[Intensity],
    augmentation: Callable | None,
    shuffle: bool,
    seed: int,
    start: int,
) -> Iterator[dict]:
    """Yields the batches of records with one grid, from batch `start` on; see `training_batches`."""
    paths = [str(manifest.record_path(data_dir, key)) for key in manifest.cases]
    as_input = _network_input(manifest, schemes, augmentation)
    parse = _parser(manifest)

    def load(sample):
        at = case_of_sample(sample, len(paths), seed if shuffle else None)
        key, source, values, labels = parse(tf.gather(paths, at))
        image, augment = as_input(values, at)
        if augment is not None:
            image, labels = augment(image, labels, seed, sample)
        return {"image": image, "labels": tf.cast(labels, tf.int32), "cases": key, "files": at, "sources": source}

    dataset = tf.data.Dataset.range(start * batch_size, tf.int64.max)
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return _batches(dataset.batch(batch_size, drop_remainder=True).prefetch(_PREFETCH), paths, manifest)


def _parser(manifest: Manifest) -> Callable:
    """Returns a function of a path, Tensor[] string, that reads the fields of a record that training needs.

    It returns (key, source, image, labels): Tensor[] string, Tensor[] string, Tensor[x, y, z] int16 of HU or Tensor[x,
    y, z, channels] float32, and Tensor[x, y, z] uint8.
    """
    (grid,) = manifest.sampling.grids
    num_channels = None if has_hu(manifest.description) else len(manifest.description.channels)
    if manifest.record_format == TFRECORD:
        from mtf_imaging.data.records.tfrecord import parse_record

        return lambda path: parse_record(tf.data.TFRecordDataset(path).get_single_element(), grid, num_channels)

    def read(path: bytes) -> tuple:
        record = open_record(path.decode(), manifest.sampling).read()
        return record.key.encode(), record.source.encode(), record.image, record.labels

    dtype, channels = (tf.int16, ()) if num_channels is None else (tf.float32, (num_channels,))

    def parse(path):
        key, source, image, labels = tf.numpy_function(read, [path], [tf.string, tf.string, dtype, tf.uint8])
        return (
            tf.ensure_shape(key, ()),
            tf.ensure_shape(source, ()),
            tf.ensure_shape(image, (*grid, *channels)),
            tf.ensure_shape(labels, grid),
        )

    return parse


def _network_input(manifest: Manifest, schemes: Sequence[Intensity], augmentation: Callable | None) -> Callable:
    """Returns a function of the stored values and the index of a case.

    It returns the image, Tensor[x, y, z, channels], and the augmentation for the values of this case.
    """
    if is_plain_lits(manifest.description) and schemes[0].kind == WINDOW:
        low, high = (np.float32(bound) for bound in schemes[0].window)

        def windowed(hu, at):
            image = tf.clip_by_value((tf.cast(hu, tf.float32) - low) / (high - low), 0.0, 1.0)[..., tf.newaxis]
            return image, augmentation

        return windowed
    maps = channel_maps(manifest, schemes)

    def scaled(values, at):
        values = values if values.shape.rank == 4 else values[..., tf.newaxis]
        case = maps.row(at)
        image = case.apply(tf.cast(values, tf.float32))
        # Custom functions do not know the argument `ranges`.
        if isinstance(augmentation, Augmentation):
            return image, functools.partial(augmentation, ranges=case.ranges)
        return image, augmentation

    return scaled


def case_of_sample(sample, num_cases: int, seed: int | None):
    """Returns the index of the case of a sample.

    Args:
      sample: Tensor[] int64, the number of the sample since the run began.
      num_cases: number of cases in an epoch.
      seed: seed of the order; None for ascending order in every epoch.

    Returns:
      Tensor[] int64 in 0..num_cases-1; each index occurs once per epoch.
    """
    epoch, at = sample // num_cases, sample % num_cases
    if seed is None:
        return at
    epoch_seed = tf.stack([tf.constant(seed, tf.int64), epoch])
    return tf.random.experimental.index_shuffle(at, epoch_seed, tf.constant(num_cases - 1, tf.int64))


def _batches(dataset: tf.data.Dataset, paths: list[str], manifest: Manifest) -> Iterator[dict]:
    try:
        for batch in dataset:
            batch["cases"] = [key.decode() for key in batch["cases"].numpy()]
            origins = zip(batch.pop("files").numpy(), batch["cases"], batch.pop("sources").numpy(), strict=True)
            for file, key, source in origins:
                manifest.check(paths[file], key, source.decode())
            yield batch
    except tf.errors.OpError:
        for path in paths:  # TensorFlow does not name the file; read_record raises an error for the damaged one
            read_record(path, manifest.sampling)
        raise
