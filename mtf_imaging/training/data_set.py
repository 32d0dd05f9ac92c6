"""The protocol of data sets; a data set does not have to derive from it."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any, Protocol, cast

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.layout import TensorRegion, parse_shape
from mtf_imaging.engine.ops.precision import INTEGERS, rank
from mtf_imaging.errors import DataError, reason
from mtf_imaging.training.protocols import check_offers, replaces
from mtf_imaging.training.task import Inputs


class DataSet(Protocol):
    """Batches of images and labels.

    If several processes train one network, each of them reads whole batches and cuts out its slices. A data set that
    can read less also defines the method of `RegionDataSet`.
    """

    def sizes(self, data_dir: str) -> tuple[int, ...]:
        """Returns the default number of voxels of the images along each of their one to three spatial dimensions.

        Args:
          data_dir: the folder.

        Raises:
          DataError: the folder is invalid.
        """

    def batches(
        self, data_dir: str, *, batch_size: int, sizes: tuple[int, ...], seed: int, start_step: int
    ) -> Iterator[dict]:
        """Yields an endless sequence of batches, starting with the batch of step `start_step`.

        Batch k must not depend on `start_step`. The sequence of images must not depend on `batch_size`, because
        micro-batches may be read as several smaller batches per step.

        Args:
          data_dir: the folder.
          batch_size: images in a batch.
          sizes: voxels of the images along their spatial dimensions.
          seed: seed of the order and of random changes to the images.
          start_step: number of the first batch.

        Yields:
          A dict with an array for each input of the task. Optionally, "cases" is a list with the names of the batch's
          cases, for messages.

        Raises:
          DataError: the folder is invalid. The error is raised by the call itself, not by the first batch.
        """


class RegionDataSet(Protocol):
    """The additional method of a data set from which each process reads only its own region of a batch."""

    def region_batches(
        self,
        data_dir: str,
        *,
        batch_size: int,
        sizes: tuple[int, ...],
        seed: int,
        start_step: int,
        regions: Mapping[str, TensorRegion],
    ) -> Iterator[dict]:
        """Yields the same batches as `DataSet.batches`, but only this process's region of each input.

        Training calls this method instead of `batches`, also if the process runs alone and its regions are whole.

        Args:
          data_dir: the folder.
          batch_size: images in a batch, summed over all processes.
          sizes: voxels of the images along their spatial dimensions.
          seed: seed of the order and of random changes to the images.
          start_step: number of the first batch.
          regions: {input name: `TensorRegion`}. A region may be empty, and several processes may have the same one.

        Yields:
          A dict with an array of the shape `regions[name].shape` for each input. Optionally, "cases" is a list with the
          names of all cases of the batch, the same in every process.

        Raises:
          DataError: the folder is invalid. The error is raised by the call itself, not by the first batch.
        """


def reads_regions(data: object) -> bool:
    """Returns whether a data set has the method of `RegionDataSet`.

    A class that derives from such a data set and defines only `batches` reads whole batches.
    """
    return replaces(data, "region_batches", "batches")


def data_sizes(data: DataSet, data_dir: Any) -> tuple[int, ...]:
    """Returns the default sizes of a data set, and checks that it follows the protocol.

    Args:
      data: the data set.
      data_dir: the folder, in the form that the data set expects.

    Raises:
      ConfigError: `data` does not follow the protocol `DataSet`.
      DataError: the data set does not return one to three positive sizes.
    """
    check_offers(data, DataSet, "data")
    sizes = data.sizes(data_dir)
    whole = [*sizes] if isinstance(sizes, Iterable) else []
    if not 1 <= len(whole) <= 3 or not all(isinstance(size, Integral) and size > 0 for size in whole):
        raise DataError(f"{_title(data)}: sizes must return 1 to 3 positive numbers of voxels, not {sizes!r}.")
    return tuple(map(int, whole))


def data_batches(
    data: DataSet,
    data_dir: Any,
    inputs: Inputs,
    *,
    batch_size: int,
    sizes: tuple[int, ...],
    seed: int,
    start_step: int,
    regions: Mapping[str, TensorRegion] | None = None,
) -> Iterator[dict[str, Any]]:
    """Returns the batches of a data set, checked and converted to the dtypes of a program's inputs.

    Args:
      data: a `DataSet`.
      data_dir: the folder, in the form that the data set expects.
      inputs: {name: (shape string, tf.DType)}, as returned by `training.task.task_inputs`.
      batch_size: images in a batch.
      sizes: voxels of the images along their spatial dimensions.
      seed: seed of the order and of random changes to the images.
      start_step: number of the first batch.
      regions: the region of each input to read from a `RegionDataSet`; None for whole batches.

    Returns:
      An iterator of dicts with a tensor for each input, and "cases", a list of strings.

    Raises:
      ConfigError: `data` does not follow the protocol `DataSet`.
      DataError: the folder is invalid. The iterator raises the same error if a batch is missing or does not match the
        inputs.
    """
    check_offers(data, DataSet, "data")
    options: dict[str, Any] = {"batch_size": batch_size, "sizes": sizes, "seed": seed, "start_step": start_step}
    if regions is None:
        batches = iter(data.batches(data_dir, **options))
    else:
        check_offers(data, RegionDataSet, "data")
        reader = cast(RegionDataSet, data)
        batches = iter(reader.region_batches(data_dir, **options, regions=regions))
    return _endless(batch_tensors(batches, inputs, _title(data), start_step, regions), _title(data), start_step)


def _endless(batches: Iterable[dict[str, Any]], title: str, step: int) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield batch
        step += 1
    raise DataError(
        f"{title}: there is no batch for step {step}; `batches` must never end. "
        "Fix: start over with the first image, for instance in a loop over itertools.count(start_step)."
    )


def batch_tensors(
    batches: Iterable[Any],
    inputs: Inputs,
    title: str,
    step: int = 0,
    regions: Mapping[str, TensorRegion] | None = None,
) -> Iterator[dict[str, Any]]:
    """Checks batches one by one and converts them to tensors.

    Args:
      batches: an iterable of batches.
      inputs: {name: (shape string, tf.DType)}.
      title: description of the source of the batches, for error messages.
      step: number of the first batch.
      regions: the region of each input that the batches contain; None for whole inputs.

    Yields:
      Dicts with a tensor for each input, and "cases", a list of strings.

    Raises:
      DataError: a batch does not match the inputs.
    """
    shapes = {name: parse_shape(shape, what=f"shape of input '{name}'") for name, (shape, _) in inputs.items()}
    dtypes = {name: dtype for name, (_, dtype) in inputs.items()}
    for batch in batches:
        where = f"{title}: the batch of step {step}"
        names = [*batch] if isinstance(batch, dict) else []
        if {*names, "cases"} != {*shapes, "cases"}:
            own = f"the arrays {', '.join(map(str, names))}" if names else f"the class {type(batch).__name__}"
            raise DataError(f"{where} must be a dict of arrays for the inputs {', '.join(shapes)}, but it has {own}.")
        cases = batch.get("cases", ())
        cases = [cases] if isinstance(cases, str) else [str(case) for case in cases]
        tensors = {
            name: _tensor(
                f"{where}{on_cases(cases)}: '{name}'",
                batch[name],
                dtypes[name],
                regions[name].shape if regions else tuple(size for _, size in shape),
            )
            for name, shape in shapes.items()
        }
        yield {**tensors, "cases": cases}
        step += 1


def on_cases(cases: Sequence[str]) -> str:
    """Returns " on cases a, b" for a message about a batch; "" if the names of its cases are unknown."""
    return f" on case{'s' * (len(cases) > 1)} {', '.join(cases)}" if cases else ""


@contextlib.contextmanager
def errors_on_cases(where: str, cases: Sequence[str]) -> Iterator[None]:
    """Adds the batch and its cases to errors about its values.

    Args:
      where: the batch, for instance "step 7".
      cases: names of its cases.
    """
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}{on_cases(cases)}: {error}") from error


def _tensor(where: str, value: object, dtype: tf.DType, shape: tuple[int, ...]) -> tf.Tensor:
    """Converts an input, or a region of it, to a tensor of a dtype; its shape and its values must not change."""
    try:
        with tf.device("CPU:0"):  # a whole tensor may not fit on the device of its slices
            source = tf.convert_to_tensor(value)
            tensor = tf.cast(source, dtype)
            changed = _changed(source, tensor)
    except (TypeError, ValueError, tf.errors.OpError) as error:
        raise DataError(f"{where} cannot be converted to an array of {dtype.name}: {reason(error)}") from error
    if tuple(tensor.shape) != shape:
        raise DataError(f"{where} has the shape {tensor.shape.as_list()}, but the task's input here is {list(shape)}.")
    if changed is not None:
        raise DataError(
            f"{where} contains {changed}, which is no {dtype.name}, the dtype of the task's input. Fix: convert the "
            "values in the data set, for instance with np.rint."
        )
    return tensor


def _changed(source: tf.Tensor, tensor: tf.Tensor) -> Any:
    """Returns the first value that a cast changed, other than by rounding to a float; None if there is none."""
    before, after = rank(source.dtype), rank(tensor.dtype)
    if source.dtype == tensor.dtype or before is None or after is None or INTEGERS < after >= before:
        return None
    values = source.numpy()
    wrong = tf.cast(tensor, source.dtype).numpy() != values
    return values[np.unravel_index(np.argmax(wrong), wrong.shape)] if wrong.any() else None


def _title(data: DataSet) -> str:
    return f"data set {type(data).__name__}"
