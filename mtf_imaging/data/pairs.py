"""Images with targets in arrays or in a `tf.data.Dataset`, as a data set, and the scores of predictions for them."""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from mtf_imaging.engine.layout import TensorRegion
from mtf_imaging.errors import DataError
from mtf_imaging.inference.several import image_of, named_inputs, named_outputs, output_of, target_name

if TYPE_CHECKING:
    import tensorflow as tf

Pair = tuple[Any, dict[str, np.ndarray]]  # an image, or a dict of several inputs; and targets by output


class Samples(Protocol):
    """An array whose first axis counts samples: NumPy, memory-mapped, Zarr, or anything with slices."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...

    def __getitem__(self, place: Any, /) -> Any: ...


# One array; or arrays by name, or in the order of the inputs or outputs of a network.
Arrays = Samples | Mapping[str, Samples] | Sequence[Samples]


class Spec(NamedTuple):
    """The shape and dtype of one sample."""

    shape: tuple[int, ...]
    dtype: np.dtype


class ArrayPairs:
    """Images and targets in arrays, from which each process reads only its own region.

    The order changes with every pass over the samples.

    Args:
      images: Array[samples, spatial..., channels]; a dict of arrays if the network has several inputs.
      targets: Array[samples, ...]; a dict of arrays by output, or a tuple, if it has several outputs.

    Attributes:
      inputs, targets: the specifications of a sample, by input and by output.

    Raises:
      DataError: there are no samples, or the arrays have different numbers of them.
    """

    def __init__(self, images: Any, targets: Any) -> None:
        inputs, outputs = named_inputs(images), named_outputs(targets)
        self._inputs, self._targets = inputs, outputs
        self._arrays: dict[str, Samples] = inputs | {target_name(name): own for name, own in outputs.items()}
        self.inputs, self.targets = (
            {name: Spec(tuple(own.shape[1:]), np.dtype(own.dtype)) for name, own in arrays.items()}
            for arrays in (inputs, outputs)
        )
        counts = {name: array.shape[0] for name, array in self._arrays.items()}  # arrays of Zarr have no len
        if len({*counts.values()}) > 1 or 0 in counts.values():
            described = ", ".join(f"{count} for {name}" for name, count in counts.items())
            raise DataError(
                f"the arrays have other numbers of samples, or none: {described}. Fix: give a target for each image, "
                "along the first axis of all arrays."
            )
        self._whole = {name: [slice(None)] * len(array.shape) for name, array in self._arrays.items()}
        self._order = functools.lru_cache(2)(self._new_order)

    def __len__(self) -> int:
        return next(iter(self._arrays.values())).shape[0]

    def __iter__(self) -> Iterator[Pair]:
        def sample(arrays: Mapping[str, Samples], number: int) -> dict[str, np.ndarray]:
            return {name: np.asarray(array[number]) for name, array in arrays.items()}

        return ((image_of(sample(self._inputs, i)), sample(self._targets, i)) for i in range(len(self)))

    def sizes(self, data_dir: object) -> tuple[int, ...]:
        return _largest(self.inputs)[:-1]

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


def _largest(inputs: Mapping[str, Spec]) -> tuple[int, ...]:
    """Returns the shape of the image among several inputs: the one with most dimensions."""
    return max((spec.shape for spec in inputs.values()), key=len)


class DatasetPairs:
    """The pairs (image, target) of a `tf.data.Dataset` without batches, which must have the same order in every run.

    Args:
      dataset: the dataset. Several inputs or outputs are dicts of tensors.

    Attributes:
      inputs, targets: the specifications of a sample, by input and by output.

    Raises:
      DataError: its elements are not pairs of tensors with known shapes.
    """

    def __init__(self, dataset: "tf.data.Dataset") -> None:
        spec = dataset.element_spec
        parts = [named_inputs(spec[0]), named_outputs(spec[1])] if isinstance(spec, tuple) and len(spec) == 2 else []
        if not parts or not all(own.shape.is_fully_defined() for part in parts for own in part.values()):
            raise DataError(
                f"the elements of the dataset are {spec}, but must be pairs of an image and a target of known shapes. "
                "Fix: map them to pairs, without batches, and set their shapes with tf.ensure_shape."
            )
        self._dataset = dataset
        self.inputs, self.targets = (
            {name: Spec(tuple(own.shape), np.dtype(own.dtype.as_numpy_dtype)) for name, own in part.items()}
            for part in parts
        )

    def sizes(self, data_dir: object) -> tuple[int, ...]:
        return _largest(self.inputs)[:-1]

    def batches(
        self, data_dir: object, *, batch_size: int, sizes: tuple[int, ...], seed: int, start_step: int
    ) -> Iterator[dict]:
        batched = self._dataset.repeat().batch(batch_size, drop_remainder=True).skip(start_step)
        for image, target in batched:
            targets = named_outputs(target)
            yield named_inputs(image) | {target_name(name): own for name, own in targets.items()}


class ScoredPairs:
    """The scores of predictions for held-out pairs, as an evaluation; see `training.evaluation`.

    Args:
      pairs: the pairs.
      measures: the name of the measure of each output.
    """

    def __init__(self, pairs: ArrayPairs, measures: Mapping[str, str]) -> None:
        self._pairs = pairs
        self._scores = {
            f"{output}_{name}" if output else name: (output, MEASURES[name]) for output, name in measures.items()
        }
        self.measures = tuple(self._scores)

    def open(self, eval_dir: object, sizes: tuple[int, ...] | None) -> Callable[..., Any]:
        def evaluate(predict: Callable[[Any], Any]) -> tuple[dict[str, float], dict[str, np.ndarray]]:
            totals: dict[str, Any] = dict.fromkeys(self._scores, 0.0)
            for image, targets in self._pairs:
                predicted = predict(image)
                for score, (output, measure) in self._scores.items():
                    totals[score] += measure.of_pair(np.asarray(output_of(predicted, output)), targets[output])
            return {score: float(measure.score(totals[score])) for score, (_, measure) in self._scores.items()}, {}

        return evaluate

    def loss_batches(self, eval_dir: object, *, batch_size: int, sizes: tuple[int, ...] | None) -> Iterator[dict]:
        return self._pairs.in_order(batch_size)


class Measure(NamedTuple):
    """A measure of many predictions.

    Attributes:
      of_pair: maps a prediction and its target to numbers, which are added up over all pairs.
      score: maps these sums to the score.
    """

    of_pair: Callable[[np.ndarray, np.ndarray], np.ndarray]
    score: Callable[[np.ndarray], float]


def _overlaps(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Returns twice the shared voxels and the sum of both sizes, for all classes but 0 or for all channels."""
    channels = np.arange(prediction.shape[-1])
    if prediction.ndim == target.ndim:
        predicted, real = prediction > 0.5, target > 0.5
    else:
        channels = channels[1:]
        predicted, real = np.argmax(prediction, -1)[..., None] == channels, target[..., None] == channels
    axes = tuple(range(prediction.ndim - 1))
    return np.stack([2 * (predicted & real).sum(axes), predicted.sum(axes) + real.sum(axes)])


def _dice(totals: np.ndarray) -> float:
    """Returns the mean Dice of all channels, each over the voxels of all pairs."""
    shared, both = totals
    return np.mean(np.where(both, shared / np.maximum(both, 1), 1.0))


def _hits(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
    return np.array([np.mean(np.argmax(prediction, -1) == target), 1.0])


def _moments(prediction: np.ndarray, target: np.ndarray) -> np.ndarray:
    values = target.astype(np.float64)
    return np.array([values.size, values.sum(), np.square(values).sum(), np.square(values - prediction).sum()])


def _r2(totals: np.ndarray) -> float:
    """Returns the coefficient of determination, 1 - sum of squared errors / sum of squared distances to the mean."""
    count, total, squares, errors = totals
    return 1 - errors / (squares - total**2 / count)


MEASURES = {
    "dice": Measure(_overlaps, _dice),
    "accuracy": Measure(_hits, lambda totals: totals[0] / totals[1]),
    "r2": Measure(_moments, _r2),
}
