"""Training batches from records: shuffled, endless, and the same from step k on whether or not the run began there."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window, check_window
from mtf_imaging.data.records.manifest import Manifest, open_records, record_path
from mtf_imaging.data.records.record import parse_record, read_record
from mtf_imaging.data.sampling.grid import parse_grid
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
    augmentation: Augmentation | None = None,
    shuffle: bool = True,
) -> Iterator[dict]:
    """Yields batches without end.

    Sample s of the run (in batch s // batch_size) is the (s % n)-th of a permutation of the n cases that depends on
    seed and epoch, s // n, alone, so it is found without going through the samples before it. Batches run on across the
    ends of epochs, so one may be larger than the set.

    Args:
      data_dir: folder of records.
      batch_size: samples in a batch.
      seed: of the order and of the augmentation.
      start_step: number of the first batch; from there on the batches are those of a run from 0.
      resolution: the grid that the records must be on, as `parse_grid` reads it; None for any.
      spacing: the spacing that they must have, as `open_records` takes it; None for any.
      window: (low, high) in HU, mapped to 0..1 and clipped.
      augmentation: what to vary; None for nothing.
      shuffle: False for the order of the manifest in every epoch.

    Yields:
      `{"image": Tensor[batch, x, y, z, channels=1] float32, "labels": Tensor[batch, x, y, z] int32, "cases": list of
      keys}`.

    Raises:
      DataError: at once, if the folder does not hold finished records of this sampling, or fewer than 1 sample or
        step 0 is asked for; at its batch, if a record is damaged, or not the one that the manifest speaks of.
    """
    if batch_size < 1 or start_step < 0:
        raise DataError(f"batch_size {batch_size}, start_step {start_step}: need at least 1 sample a batch and step 0.")
    window = check_window(window)
    manifest = open_records(data_dir, None if resolution is None else parse_grid(resolution), spacing)
    paths = [str(record_path(data_dir, key)) for key in manifest.cases]
    grid = manifest.sampling.grid
    low, high = (np.float32(bound) for bound in window)

    def load(sample):
        at = case_of_sample(sample, len(paths), seed if shuffle else None)
        serialized = tf.data.TFRecordDataset(tf.gather(paths, at)).get_single_element()
        key, source, hu, labels = parse_record(serialized, grid)
        image = tf.clip_by_value((tf.cast(hu, tf.float32) - low) / (high - low), 0.0, 1.0)[..., tf.newaxis]
        if augmentation is not None:
            image, labels = augmentation(image, labels, seed, sample)
        return {"image": image, "labels": tf.cast(labels, tf.int32), "cases": key, "files": at, "sources": source}

    dataset = tf.data.Dataset.range(start_step * batch_size, tf.int64.max)
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return _batches(dataset.batch(batch_size, drop_remainder=True).prefetch(_PREFETCH), paths, manifest)


def case_of_sample(sample, num_cases: int, seed: int | None):
    """The case that is sample number `sample` of a run.

    Args:
      sample: Tensor[] int64.
      num_cases: how many cases an epoch has.
      seed: of the order; None for ascending order in every epoch.

    Returns:
      Tensor[] int64 in 0..num_cases-1; each once in an epoch.
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
        for path in paths:  # TensorFlow does not say which file it was; this raises at the one that is damaged
            read_record(path, manifest.sampling)
        raise
