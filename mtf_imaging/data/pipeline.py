"""Training batches from records: shuffled, endless, and the same from step k on whether or not steps 0..k-1 were
run."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from mtf_imaging.data.augment import Augmentation
from mtf_imaging.data.grid import Grid, parse_grid
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window, check_window
from mtf_imaging.data.manifest import open_records, record_path
from mtf_imaging.data.records import parse_record, read_record
from mtf_imaging.errors import DataError

_PREFETCH = 2  # batches


def training_batches(
    data_dir: str | Path,
    batch_size: int,
    seed: int,
    start_step: int = 0,
    *,
    resolution: str | int | None = None,
    window: Window = DEFAULT_WINDOW,
    augmentation: Augmentation | None = None,
    shuffle: bool = True,
) -> Iterator[dict]:
    """Yields batches without end.

    Sample s of the run (batch s // batch_size) is case `epoch_order(n, seed, s // n)[s % n]` of n: each epoch is
    another permutation, and sample s is found without going through those before it. Batches run on across the ends of
    epochs, so one may be larger than the set.

    Args:
      data_dir: folder of records.
      batch_size: samples in a batch.
      seed: of the order and of the augmentation.
      start_step: number of the first batch; from there on the batches are those of a run from 0.
      resolution: the grid that the records must be on, as `parse_grid` reads it; None for any.
      window: (low, high) in HU, mapped to 0..1 and clipped.
      augmentation: what to vary; None for nothing.
      shuffle: False for the order of the manifest in every epoch.

    Yields:
      `{"image": Tensor[batch, x, y, z, channels=1] float32, "labels": Tensor[batch, x, y, z] int32, "cases": list of
      keys}`.

    Raises:
      DataError: at once, if the folder does not hold finished records of this resolution, or fewer than 1 sample or
        step 0 is asked for; at its batch, if a record is damaged.
    """
    if batch_size < 1 or start_step < 0:
        raise DataError(f"batch_size {batch_size}, start_step {start_step}: need at least 1 sample a batch and step 0.")
    window = check_window(window)
    manifest = open_records(data_dir, None if resolution is None else parse_grid(resolution))
    paths = [str(record_path(data_dir, key)) for key in manifest.cases]
    samples = _samples(paths, seed if shuffle else None, start_step * batch_size)
    grid = parse_grid(manifest.resolution)
    return _batches(_dataset(samples, batch_size, seed, grid, window, augmentation), paths, grid)


def epoch_order(num_cases: int, seed: int | None, epoch: int) -> np.ndarray:
    """The order of the cases in an epoch.

    Returns:
      A permutation of 0..num_cases-1 that depends on (seed, epoch) alone; ascending where seed is None.
    """
    return np.arange(num_cases) if seed is None else np.random.default_rng([seed, epoch]).permutation(num_cases)


def _samples(paths: list[str], seed: int | None, first: int):
    """Returns a function that yields (number, path) of each sample from `first` on."""

    def generate():
        epoch, at = divmod(first, len(paths))
        while True:
            order = epoch_order(len(paths), seed, epoch)
            for index in range(at, len(paths)):
                yield epoch * len(paths) + index, paths[order[index]]
            epoch, at = epoch + 1, 0

    return generate


def _dataset(
    samples, batch_size: int, seed: int, grid: Grid, window: Window, augmentation: Augmentation | None
) -> tf.data.Dataset:
    low, high = (np.float32(bound) for bound in window)

    def load(number, path):
        key, hu, labels = parse_record(tf.data.TFRecordDataset(path).get_single_element(), grid)
        image = tf.clip_by_value((tf.cast(hu, tf.float32) - low) / (high - low), 0.0, 1.0)[..., tf.newaxis]
        if augmentation is not None:
            image, labels = augmentation(image, labels, seed, number)
        return {"image": image, "labels": tf.cast(labels, tf.int32), "cases": key}

    signature = (tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.string))
    dataset = tf.data.Dataset.from_generator(samples, output_signature=signature)
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return dataset.batch(batch_size, drop_remainder=True).prefetch(_PREFETCH)


def _batches(dataset: tf.data.Dataset, paths: list[str], grid: Grid) -> Iterator[dict]:
    try:
        for batch in dataset:
            batch["cases"] = [key.decode() for key in batch["cases"].numpy()]
            yield batch
    except tf.errors.OpError:
        for path in paths:  # TensorFlow does not say which file it was; this raises at the one that is damaged
            read_record(path, grid)
        raise
