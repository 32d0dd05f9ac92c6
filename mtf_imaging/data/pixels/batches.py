"""Batches of random crops of images with a height and a width, and random changes shared by their data sets."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import tensorflow as tf

from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.elements import elements
from mtf_imaging.data.records.pipeline import case_of_sample
from mtf_imaging.errors import ConfigError, MtfImagingError
from mtf_imaging.parameters import check_parameters, check_value

_PREFETCH = 2  # batches to read ahead
_LARGE = 2**21  # pixels; larger crops are read one at a time and one batch ahead, which saves memory


def check_augmentation(augmentation: object, min_scale: float, max_scale: float) -> None:
    """Checks the parameters of an augmentation.

    Raises:
      ConfigError: a parameter is invalid, or `min_scale` is above `max_scale`.
    """
    check_parameters(augmentation)
    if min_scale > max_scale:
        name = type(augmentation).__name__
        raise ConfigError(f"{name}.min_scale {min_scale:g} is above max_scale {max_scale:g}. Fix: exchange them.")


def draw_crop(sample, number: int, seed: int, augmentation: object) -> tuple:
    """Draws the random numbers of a sample.

    Args:
      sample: Tensor[] int64, the sample number.
      number: the number of images.
      seed: the run's seed.
      augmentation: the random scales and flips, or None.

    Returns:
      The index of the image, Tensor[] int64; its scale, Tensor[] float32; whether to mirror it, Tensor[] bool; and the
      position of the crop, Tensor[2] float32 in 0..1.
    """
    draws = Draws(seed, sample)
    scale, mirrored = tf.constant(1.0), tf.constant(False)
    if augmentation is not None:
        scale, mirrored = augmentation.draw_scale(draws), augmentation.draw_flip(draws)
    return case_of_sample(sample, number, seed), scale, mirrored, draws.uniform("crop", shape=(2,))


def crop_batches(
    load: Callable[[tf.Tensor], dict],
    keys: Sequence[str],
    errors: Mapping[int, MtfImagingError],
    size: tuple[int, int],
    batch_size: int,
    start_step: int,
) -> Iterator[dict]:
    """Returns an endless iterator over batches.

    Args:
      load: a function from a sample number to its Tensors, without the dimension `batch`; "files" is the index of its
        image.
      keys: the keys of the images.
      errors: {sample number: error} of unreadable images, which `load` fills.
      size: height and width of the crops.
      batch_size: number of crops in a batch.
      start_step: number of the first batch.

    Raises:
      ConfigError: `batch_size` is below 1, or `start_step` is below 0. The iterator raises the errors of images.
    """
    check_value("batch_size", batch_size, int)
    check_value("start_step", start_step, int, least=0)
    large = math.prod(size) > _LARGE
    dataset = tf.data.Dataset.range(start_step * batch_size, tf.int64.max).map(
        lambda sample: {**load(sample), "samples": sample},
        num_parallel_calls=None if large else tf.data.AUTOTUNE,
        deterministic=None if large else True,
    )
    return _checked(dataset.batch(batch_size, drop_remainder=True).prefetch(1 if large else _PREFETCH), keys, errors)


def cyclic_batches(images: Sequence, batch_size: int) -> Iterator[list]:
    """Yields all images in batches, in order; the first images fill up the last batch."""
    endless = itertools.cycle(images)
    for _ in range(math.ceil(len(images) / batch_size)):
        yield list(itertools.islice(endless, batch_size))


def _checked(dataset: tf.data.Dataset, keys: Sequence[str], errors: Mapping[int, MtfImagingError]) -> Iterator[dict]:
    for batch in elements(dataset):
        for sample in batch.pop("samples").numpy():
            if int(sample) in errors:
                raise errors[int(sample)]
        batch["cases"] = [keys[at] for at in batch.pop("files").numpy()]
        yield batch
