"""Images with targets in arrays or in a `tf.data.Dataset`, as a data set, and the scores of predictions for them."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mtf_imaging.engine.layout import TensorRegion
from mtf_imaging.errors import DataError

if TYPE_CHECKING:
    import tensorflow as tf

IMAGE, TARGET = "image", "labels"
Pair = tuple[np.ndarray, np.ndarray]  # a prediction, or an image, with its target


class Samples(Protocol):
    """An array whose first axis counts samples: NumPy, memory-mapped, Zarr, or anything with slices."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...

    def __len__(self) -> int: ...

    def __getitem__(self, place: Any, /) -> Any: ...


class ArrayPairs:
    """Images and targets in arrays, from which each process reads only its own region.

    The order changes with every pass over the samples.

    Args:
      images: Array[samples, spatial..., channels].
      targets: Array[samples, ...].

    Raises:
      DataError: there are no samples, or as many images as targets.
    """

    def __init__(self, images: Samples, targets: Samples) -> None:
        counts = len(images), len(targets)
        if counts[0] != counts[1] or not counts[0]:
            what = f"there are {counts[0]} images, but {counts[1]} targets"
            raise DataError(f"{what}. Fix: give a target for each image, along the first axis of both arrays.")
        self._arrays = {IMAGE: images, TARGET: targets}
        self._whole = {name: [slice(None)] * len(array.shape) for name, array in self._arrays.items()}
        self._order = functools.lru_cache(2)(self._new_order)

    def __len__(self) -> int:
        return len(self._arrays[IMAGE])

    def __iter__(self) -> Iterator[Pair]:
        images, targets = self._arrays.values()
        return ((np.asarray(images[i]), np.asarray(targets[i])) for i in range(len(self)))

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype]:
        """Returns the shape of an image, the shape of a target, and the dtype of targets."""
        images, targets = self._arrays.values()
        return tuple(images.shape[1:]), tuple(targets.shape[1:]), np.dtype(targets.dtype)

    def sizes(self, data_dir: object) -> tuple[int, ...]:
        return self.shapes()[0][:-1]

    def batches(
        self, data_dir: object, *, batch_size: int, sizes: tuple[int, ...], seed: int, start_step: int
    ) -> Iterator[dict]:
        return self._read(self._whole, batch_size, seed, start_step)

    def region_batches(
        self,
        data_dir: object,
        *,
        batch_size: int,
        sizes: tuple[int, ...],
        seed: int,
        start_step: int,
        regions: Mapping[str, TensorRegion],
    ) -> Iterator[dict]:
        return self._read({name: [*region.slices] for name, region in regions.items()}, batch_size, seed, start_step)

    def _read(self, parts: Mapping[str, list[slice]], batch_size: int, seed: int, start_step: int) -> Iterator[dict]:
        for first in itertools.count(start_step * batch_size, batch_size):
            chosen = [self._sample(number, seed) for number in range(first, first + batch_size)]
            yield self._stacked(chosen, parts)

    def _sample(self, number: int, seed: int) -> int:
        """Returns the sample at a place of the endless sequence."""
        epoch, place = divmod(number, len(self))
        return int(self._order(seed, epoch)[place])

    def _new_order(self, seed: int, epoch: int) -> np.ndarray:
        return np.random.default_rng([seed, epoch]).permutation(len(self))

    def _stacked(self, chosen: list[int], parts: Mapping[str, list[slice]]) -> dict[str, Any]:
        batch: dict[str, Any] = {"cases": [f"sample {number}" for number in chosen]}
        for name, (samples, *place) in parts.items():
            array = self._arrays[name]
            own = [np.asarray(array[(number, *place)]) for number in chosen[samples]]
            # The region of a process may have no samples.
            batch[name] = np.stack(own) if own else np.empty((0, *(p.stop - p.start for p in place)), array.dtype)
        return batch

    def in_order(self, batch_size: int) -> Iterator[dict]:
        """Yields all samples once in batches; the first samples fill up the last batch."""
        for first in range(0, len(self), batch_size):
            yield self._stacked([number % len(self) for number in range(first, first + batch_size)], self._whole)


class DatasetPairs:
    """The pairs (image, target) of a `tf.data.Dataset` without batches, which must have the same order in every run.

    Args:
      dataset: the dataset.

    Raises:
      DataError: its elements are not pairs of tensors with known shapes.
    """

    def __init__(self, dataset: "tf.data.Dataset") -> None:
        spec = dataset.element_spec
        known = isinstance(spec, tuple) and len(spec) == 2 and all(part.shape.is_fully_defined() for part in spec)
        if not known:
            what = f"the elements of the dataset are {spec}, but must be pairs of an image and a target of known shapes"
            fix = "map them to pairs, without batches, and set their shapes with tf.ensure_shape"
            raise DataError(f"{what}. Fix: {fix}.")
        self._dataset = dataset

    def __iter__(self) -> Iterator[Pair]:
        return iter(self._dataset.as_numpy_iterator())

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype]:
        """Returns the shape of an image, the shape of a target, and the dtype of targets."""
        image, target = self._dataset.element_spec
        return tuple(image.shape), tuple(target.shape), np.dtype(target.dtype.as_numpy_dtype)

    def sizes(self, data_dir: object) -> tuple[int, ...]:
        return self.shapes()[0][:-1]

    def batches(
        self, data_dir: object, *, batch_size: int, sizes: tuple[int, ...], seed: int, start_step: int
    ) -> Iterator[dict]:
        batched = self._dataset.repeat().batch(batch_size, drop_remainder=True).skip(start_step)
        return ({IMAGE: image, TARGET: target} for image, target in batched)


class ScoredPairs:
    """The score of predictions for held-out pairs, as an evaluation; see `training.evaluation`.

    Args:
      pairs: the pairs, with the method `in_order` if the loss is computed as well.
      measure: the name of the measure.
    """

    def __init__(self, pairs: ArrayPairs, measure: str) -> None:
        self._pairs, self.measures = pairs, (measure,)

    def open(self, eval_dir: object, sizes: tuple[int, ...] | None) -> Callable[..., Any]:
        (name,) = self.measures

        def evaluate(predict: Callable[[np.ndarray], Any]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
            predicted = ((predict(image), target) for image, target in self._pairs)
            return {name: MEASURES[name](predicted)}, {}

        return evaluate

    def loss_batches(self, eval_dir: object, *, batch_size: int, sizes: tuple[int, ...] | None) -> Iterator[dict]:
        return self._pairs.in_order(batch_size)


def _dice(pairs: Iterable[Pair]) -> float:
    """Returns the mean Dice of all classes but 0, or of all channels, each over the voxels of all pairs."""
    totals = np.zeros(2)
    for prediction, target in pairs:
        channels = np.arange(prediction.shape[-1])
        if prediction.ndim == target.ndim:
            predicted, real = prediction > 0.5, target > 0.5
        else:
            channels = channels[1:]
            predicted, real = np.argmax(prediction, -1)[..., None] == channels, target[..., None] == channels
        axes = tuple(range(prediction.ndim - 1))
        totals = totals + np.stack([2 * (predicted & real).sum(axes), predicted.sum(axes) + real.sum(axes)], -1)
    shared, both = np.atleast_2d(totals).T
    return float(np.mean(np.where(both, shared / np.maximum(both, 1), 1.0)))


def _accuracy(pairs: Iterable[Pair]) -> float:
    """Returns the share of images whose class is predicted."""
    return float(np.mean([np.argmax(prediction, -1) == target for prediction, target in pairs]))


def _r2(pairs: Iterable[Pair]) -> float:
    """Returns the coefficient of determination, 1 - sum of squared errors / sum of squared distances to the mean."""
    count = total = squares = errors = 0.0
    for prediction, target in pairs:
        values = target.astype(np.float64)
        count, total, squares = count + values.size, total + values.sum(), squares + np.square(values).sum()
        errors += np.square(values - prediction).sum()
    return float(1 - errors / (squares - total**2 / count))


MEASURES = {"dice": _dice, "accuracy": _accuracy, "r2": _r2}
