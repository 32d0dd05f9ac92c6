"""The protocol of tasks: a network with its loss. A task does not have to derive from it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import ConfigError
from mtf_imaging.inference.several import named_outputs
from mtf_imaging.training.frozen import NOTHING_FROZEN, Frozen
from mtf_imaging.training.protocols import check_offers, check_takes

# The inputs of a `Program`: {name: (shape string, dtype)}.
Inputs = dict[str, tuple[str, tf.DType]]


class Task(Protocol):
    """A network with its loss, as functions over named tensors."""

    def inputs(self, batch_size: int, sizes: tuple[int, ...], *, dtype: str, labels: bool) -> dict:
        """Returns the inputs of a `Program`, {name: (shape string, dtype)}.

        The task chooses the names, sizes and number of dimensions. Only the name `batch` has a fixed meaning: the
        images that are computed together.

        Args:
          batch_size: images in a batch.
          sizes: voxels of an image along its spatial dimensions.
          dtype: dtype of images and activations. Weights and losses should have the dtype `ops.master_dtype(dtype)`,
            which is float32 for bfloat16.
          labels: whether to include the inputs that only `loss` needs.
        """

    def loss(self, **inputs: mtf.Tensor) -> tuple[mtf.Tensor, dict[str, mtf.Tensor]]:
        """Returns the loss, Tensor[], and additional measures to log, Tensors[] by name."""

    def predict(self, **inputs: mtf.Tensor) -> mtf.Tensor | dict[str, mtf.Tensor]:
        """Returns the prediction for an image; for a segmentation, probabilities Tensor[batch, x, y, z, classes].

        A prediction with several outputs is a dict of Tensors by name, each with the first dimension `batch`; in a
        tuple, they are called `output_0`, `output_1` and so on. `training.prediction` passes the inputs without those
        that only `loss` needs, such as `image`, Tensor[batch, x, y, z, channels], with one to three spatial dimensions.
        """


def task_inputs(
    task: Task, batch_size: int, sizes: Sequence[int], dtype: str = "float32", labels: bool = True
) -> Inputs:
    """Returns the inputs of a task, and checks that the task follows the protocol.

    Args:
      task: a `Task`.
      batch_size: images in a batch.
      sizes: voxels along the spatial dimensions.
      dtype: dtype of images and activations.
      labels: True for the inputs of `loss`; False for the inputs of `predict`.

    Returns:
      The inputs in the format of `Program`, {name: (shape string, tf.DType)}.

    Raises:
      ConfigError: `task` does not follow the protocol `Task`, or its methods do not accept its inputs.
    """
    check_offers(task, Task, "task")
    inputs = task.inputs(batch_size, tuple(sizes), dtype=dtype, labels=labels)
    check_takes(task, "loss" if labels else "predict", "task", [], inputs)
    return {name: _with_dtype(spec) for name, spec in inputs.items()}


def prediction(task: Task) -> Callable[..., Any]:
    """Returns the prediction of a task as the function of a `Program`: a Tensor, or a dict of Tensors by name."""

    def predict(**inputs: mtf.Tensor) -> Any:
        outputs = task.predict(**inputs)
        return named_outputs(outputs) if isinstance(outputs, tuple | list) else outputs

    return predict


def _with_dtype(spec: str | tuple[str, Any]) -> tuple[str, tf.DType]:
    """Returns the shape and dtype of an input; the default dtype is float32, as in `Program`."""
    shape, dtype = spec if isinstance(spec, tuple | list) else (spec, tf.float32)
    return shape, tf.as_dtype(dtype)


def loss_of(
    task: Task, inputs: dict[str, mtf.Tensor], frozen: Frozen = NOTHING_FROZEN
) -> tuple[mtf.Tensor, dict[str, mtf.Tensor]]:
    """Calls the loss of a task, and checks its result.

    Args:
      task: a `Task`.
      inputs: Tensors by name.
      frozen: the weights that are not trained.

    Returns:
      The loss, Tensor[], and a dict of Tensors[].

    Raises:
      ConfigError: the result has another type, the task has no weights, or `frozen` does not fit them.
    """
    with frozen.applied(next(iter(inputs.values())).graph):
        result = task.loss(**inputs)
    title = f"the loss of task {type(task).__name__}"
    if not _is_loss(result):
        raise ConfigError(
            f"{title} must return a pair: the loss, and a dict of measures ({{}} for none) with names other than "
            f"'loss'. All of them must be scalar mtf.Tensors, but it returned {result!s:.200}. Fix: apply "
            "mtf.reduce_mean or mtf.reduce_sum to tensors with dimensions."
        )
    loss, measures = result
    if not loss.graph.trainable_variables:
        raise ConfigError(
            f"{title} has no weights to train. Fix: create weights with mtf.get_variable(image.mesh, ...)."
        )
    return loss, measures


def _is_loss(result: object) -> bool:
    """Returns whether a value is a pair of a scalar and a dict of scalars, none of which is called "loss"."""
    if not (isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], dict)):
        return False
    values = [result[0], *result[1].values()]
    return "loss" not in result[1] and all(isinstance(one, mtf.Tensor) and not one.shape.ndims for one in values)
