"""What a model offers to be trained and used; it need not derive from anything here."""

from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ConfigError, ShapeError
from mtf_imaging.training.protocols import check_offers, check_takes

# {name: (shape string, dtype)}, the inputs of a `Program`.
Inputs = dict[str, tuple[str, tf.DType]]


class Task(Protocol):
    """A network with its loss, as functions over named tensors."""

    def inputs(self, batch_size: int, sizes: tuple[int, ...], *, dtype: str, labels: bool) -> dict:
        """Returns the inputs of a `Program`, {name: (shape string, dtype)}.

        Names, sizes and number of dimensions are the task's own; only `batch` has a meaning elsewhere: the images that
        are computed together.

        Args:
          batch_size: images in a batch.
          sizes: voxels of an image along its spatial dimensions.
          dtype: dtype of images and activations; weights and losses are to be of `ops.master_dtype(dtype)`, float32
            where it is bfloat16.
          labels: whether to include what only `loss` takes.
        """

    def loss(self, **inputs: mtf.Tensor) -> tuple[mtf.Tensor, dict[str, mtf.Tensor]]:
        """Returns the loss, Tensor[], and measures to show beside it, Tensors[] by name."""

    def predict(self, **inputs: mtf.Tensor) -> mtf.Tensor:
        """Returns the prediction for an image; to segment, probabilities Tensor[batch, x, y, z, classes].

        `training.prediction` passes `image`, Tensor[batch, x, y, z, channels], with as many spatial dimensions as it
        has.
        """


def task_inputs(
    task: Task, batch_size: int, sizes: Sequence[int], dtype: str = "float32", labels: bool = True
) -> Inputs:
    """Asks a task for its inputs, and checks that it is one.

    Args:
      task: a `Task`.
      batch_size: images in a batch.
      sizes: voxels along the spatial dimensions.
      dtype: dtype of images and activations.
      labels: whether they are those of `loss`, or of `predict`.

    Returns:
      {name: (shape string, tf.DType)}, as a `Program` takes them.

    Raises:
      ConfigError: what is no task, or one whose methods do not fit each other.
    """
    where = "task"
    check_offers(task, Task, where)
    inputs = task.inputs(batch_size, tuple(sizes), dtype=dtype, labels=labels)
    if not isinstance(inputs, dict):
        raise ConfigError(
            f"{where}, a {type(task).__name__}: inputs must return a dict of shapes by name, not {inputs!r}.",
            settings=[where],
        )
    check_takes(task, "loss" if labels else "predict", where, [], inputs)
    return {name: _with_dtype(spec) for name, spec in inputs.items()}


def _with_dtype(spec: Any) -> tuple[str, tf.DType]:
    """Returns the shape and dtype of an input; a shape alone is float32, as to a `Program`."""
    shape, dtype = spec if isinstance(spec, tuple | list) else (spec, tf.float32)
    return shape, tf.as_dtype(dtype)


def loss_of(task: Task, inputs: dict[str, mtf.Tensor]) -> tuple[mtf.Tensor, dict[str, mtf.Tensor]]:
    """Calls a task's loss, and checks what it returns.

    Args:
      task: a `Task`.
      inputs: Tensors by name.

    Returns:
      The loss, Tensor[], and a dict of Tensors[].

    Raises:
      ConfigError: it is not that.
      ShapeError: a loss or measure that is more than a number.
    """
    result = task.loss(**inputs)
    says = f"the loss of task {type(task).__name__}"
    if not (isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], dict)):
        raise ConfigError(f"{says} must return a pair (loss, dict of measures, {{}} for none), not {_shown(result)}.")
    loss, measures = result
    for name, value in {"loss": loss, **measures}.items():
        if not isinstance(value, mtf.Tensor):
            raise ConfigError(f"{says} must return mtf.Tensors; '{name}' is {_shown(value)}.")
        if value.shape.ndims:
            raise ShapeError(
                f"{says} must return numbers; '{name}' has the dimensions {value.shape}. "
                "Fix: mtf.reduce_mean of it, or mtf.reduce_sum."
            )
    if "loss" in measures:
        raise ConfigError(f"{says}: a measure cannot be called 'loss', too. Fix: give it another name.")
    if not loss.graph.trainable_variables:
        raise ConfigError(f"{says} has no weights to train. Fix: make them with mtf.get_variable(image.mesh, ...).")
    return loss, measures


def _shown(value: object) -> str:
    return f"{type(value).__name__} {value}" if isinstance(value, mtf.Tensor) else type(value).__name__
