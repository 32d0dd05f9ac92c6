"""Batches of random crops of images with a height and a width, and random changes shared by their data sets."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import tensorflow as tf

from mtf_imaging.data.augmentation.checks import check_fields, is_number
from mtf_imaging.data.augmentation.draws import Draws
from mtf_imaging.data.elements import elements
from mtf_imaging.data.pixels.crop_axis import check_size
from mtf_imaging.data.pixels.scaling import fault_of_scaling
from mtf_imaging.data.records.pipeline import case_of_sample
from mtf_imaging.errors import ConfigError, DataError, MtfImagingError
from mtf_imaging.parameters import check_value

_PREFETCH = 2  # batches to read ahead
_LARGE = 2**21  # pixels; larger crops are read one at a time and one batch ahead, which saves memory


def check_data_set(data_set: object, name: str, images: str, augmentation: type) -> None:
    """Checks the augmentation, the scaling and the size of a data set, and stores the size as a tuple.

    Args:
      data_set: the data set.
      name: the name of its class.
      images: a noun for its images.
      augmentation: the class of its augmentation.

    Raises:
      ConfigError: one of them is invalid.
    """
    if data_set.augmentation is not None and not isinstance(data_set.augmentation, augmentation):
        article = "an" if augmentation.__name__.startswith("O") else "a"
        what = f"{name}.augmentation is of the class {type(data_set.augmentation).__name__}"
        raise ConfigError(f"{what}, which does not change {images}. Fix: use {article} {augmentation.__name__}.")
    fault = data_set.scaling is not None and fault_of_scaling(data_set.scaling)
    if fault:
        raise ConfigError(f"{name}.{fault}")
    object.__setattr__(data_set, "size", check_size(f"{name}.size", data_set.size))


def check_scales(augmentation: object, **lowest: float) -> None:
    """Checks the bounds of the random scales of an augmentation.

    Args:
      augmentation: the augmentation.
      **lowest: the lowest value of each number, including `min_scale` and `max_scale`.

    Raises:
      DataError: a number is invalid, or the lower bound is above the upper bound.
    """
    forms = {
        name: (functools.partial(is_number, low=low), f"a number of at least {low:g}") for name, low in lowest.items()
    }
    check_fields(augmentation, forms)
    if augmentation.min_scale > augmentation.max_scale:
        what = f"min_scale {augmentation.min_scale:g} is above max_scale {augmentation.max_scale:g}"
        raise DataError(f"{type(augmentation).__name__}.{what}. Fix: exchange them.")


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
