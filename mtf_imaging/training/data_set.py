"""What a data set offers to be trained on; it need not derive from anything here."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import tensorflow as tf

from mtf_imaging.errors import DataError
from mtf_imaging.layout import Shape, format_shape, parse_shape
from mtf_imaging.training.protocols import check_offers
from mtf_imaging.training.task import Inputs


class DataSet(Protocol):
    """Images and what is to be learned of them, in batches."""

    def sizes(self, data_dir: str) -> tuple[int, ...]:
        """Returns the voxels of the images along their one to three spatial dimensions, where nobody asks for others.

        Args:
          data_dir: the folder.

        Raises:
          DataError: the folder cannot be used.
        """

    def batches(
        self, data_dir: str, *, batch_size: int, sizes: tuple[int, ...], seed: int, start_step: int
    ) -> Iterator[dict]:
        """Yields batches without end, from that of step `start_step` on.

        Batch k must not depend on where the run began. Nor should the images, one batch after the other, depend on
        `batch_size`: micro-batches are asked for as smaller ones, several a step.

        Args:
          data_dir: the folder.
          batch_size: images in a batch.
          sizes: voxels of the images along their spatial dimensions.
          seed: seed of the order and of random changes to the images.
          start_step: number of the first batch.

        Yields:
          Arrays by the names of the task's inputs, and "cases", a list of names of what is in the batch, for messages;
          it may be left out.

        Raises:
          DataError: at once, before the first batch is asked for, if the folder cannot be used.
        """


def data_sizes(data: DataSet, data_dir: Any) -> tuple[int, ...]:
    """Asks a data set for its sizes, and checks that it is one.

    Args:
      data: the data set.
      data_dir: its folder, as the data set takes it.

    Raises:
      ConfigError: it is none.
      DataError: it does not give one to three positive sizes.
    """
    check_offers(data, DataSet, "data")
    sizes = data.sizes(data_dir)
    try:
        whole = tuple(int(size) for size in sizes)
    except (TypeError, ValueError):
        whole = ()
    if not 1 <= len(whole) <= 3 or min(whole) < 1:
        raise DataError(f"{_title(data)}: sizes must return 1 to 3 positive numbers of voxels, not {sizes!r}.")
    return whole


def data_batches(
    data: DataSet, data_dir: Any, inputs: Inputs, *, batch_size: int, sizes: tuple[int, ...], seed: int, start_step: int
) -> Iterator[dict[str, Any]]:
    """Returns the batches of a data set, in the dtypes of a program's inputs; each is checked against them.

    Args:
      data: a `DataSet`.
      data_dir: its folder, as the data set takes it.
      inputs: {name: (shape string, tf.DType)}, those of `training.task.task_inputs`.
      batch_size: images in a batch.
      sizes: voxels of the images along their spatial dimensions.
      seed: as of `DataSet.batches`.
      start_step: number of the first batch.

    Returns:
      An iterator of dicts: a tensor for each input, and "cases", a list of strings.

    Raises:
      ConfigError: what is no data set.
      DataError: at once or with a batch: one that is not what the inputs are, or that there is none.
    """
    check_offers(data, DataSet, "data")
    found = iter(data.batches(data_dir, batch_size=batch_size, sizes=sizes, seed=seed, start_step=start_step))
    return _endless(checked_batches(found, inputs, _title(data), start_step), _title(data), start_step)


def _endless(batches: Iterable[dict[str, Any]], title: str, step: int) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield batch
        step += 1
    raise DataError(
        f"{title}: there is no batch for step {step}; `batches` must never end. "
        "Fix: start over with the first image, for instance in a loop over itertools.count(start_step)."
    )


def checked_batches(found: Iterable[Any], inputs: Inputs, title: str, step: int = 0) -> Iterator[dict[str, Any]]:
    """Checks batches one by one and converts them to tensors.

    Args:
      found: an iterator of batches.
      inputs: {name: (shape string, tf.DType)}.
      title: source of the batches, for error messages.
      step: number of the first batch.

    Yields:
      Dicts of a tensor for each input, and "cases", a list of strings.

    Raises:
      DataError: a batch does not match the inputs.
    """
    shapes = {name: parse_shape(shape, what=f"shape of input '{name}'") for name, (shape, _) in inputs.items()}
    dtypes = {name: dtype for name, (_, dtype) in inputs.items()}
    for batch in found:
        where = f"{title}: the batch of step {step}"
        if not isinstance(batch, dict):
            raise DataError(f"{where} must be a dict of arrays by input, not a {type(batch).__name__}.")
        missing, unknown = sorted(shapes.keys() - batch.keys()), sorted(batch.keys() - shapes.keys() - {"cases"})
        if missing or unknown:
            faults = [f"has no '{name}'" for name in missing] + [f"has '{name}', which is none" for name in unknown]
            raise DataError(f"{where} {' and '.join(faults)}; the task's inputs are {', '.join(shapes)}.")
        tensors = {name: _tensor(batch[name], shape, dtypes[name], name, where) for name, shape in shapes.items()}
        cases = batch.get("cases", ())
        yield {**tensors, "cases": [cases] if isinstance(cases, str) else [str(case) for case in cases]}
        step += 1


def _tensor(value: Any, shape: Shape, dtype: tf.DType, name: str, where: str) -> tf.Tensor:
    """Returns an input as a tensor of its dtype."""
    try:
        with tf.device("CPU:0"):  # a whole tensor need not fit where its slices do
            tensor = tf.cast(value, dtype)
    except (TypeError, ValueError, tf.errors.OpError) as error:
        why = str(error).splitlines()[0]
        raise DataError(f"{where}: '{name}' cannot be made an array of {dtype.name}: {why}") from error
    if tensor.shape.as_list() != [size for _, size in shape]:
        raise DataError(
            f"{where}: '{name}' has the shape {tensor.shape.as_list()}, "
            f"but the task's input is [{format_shape(shape)}]."
        )
    return tensor


def _title(data: DataSet) -> str:
    return f"data set {type(data).__name__}"
