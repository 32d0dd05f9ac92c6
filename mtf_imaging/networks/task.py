"""A network of another library with a loss, as a task that `mi.jobs.train` trains."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.engine.ops.inference import is_inference
from mtf_imaging.errors import ConfigError
from mtf_imaging.training.task import Inputs

_LABELS = "labels"


class TrainableNetwork(Protocol):
    """What a task needs of a network: `Network` and functions of one image have it."""

    @property
    def input_names(self) -> tuple[str, ...]: ...

    def inputs(self, batch: int, **sizes: int) -> Inputs: ...

    def __call__(self, *, training: bool, **inputs: mtf.Tensor) -> Any: ...


class NetworkTask:
    """A network with a loss; see `task`."""

    def __init__(
        self,
        network: TrainableNetwork,
        loss: Callable[..., Any],
        targets: Mapping[str, tuple[str, str]] | None,
        predict: Callable[[Any], Any] | None,
    ) -> None:
        self._network, self._loss, self._targets, self._predict = network, loss, targets, predict

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs of the network."""
        return self._network.input_names

    def inputs(self, batch_size: int, sizes: tuple[int, ...], *, dtype: str, labels: bool) -> Inputs:
        """Returns the inputs of the network and, for `loss`, the targets; see `training.task.Task`."""
        images = self._network.inputs(batch_size, **dict(zip("xyz", sizes, strict=False)))
        for name, (_, own) in images.items():
            if own.is_floating and own != tf.as_dtype(dtype):
                raise ConfigError(
                    f"dtype = {dtype!r}, but the input '{name}' is {own.name}. Fix: use dtype='{own.name}'.",
                    ["dtype"],
                )
        if not labels:
            return images
        known = max((dict(parse_shape(shape)) for shape, _ in images.values()), key=len)
        space = [name for name in known if name != "channels"]
        targets = self._targets or {_LABELS: (",".join(space), "int32")}
        return images | {
            name: (",".join(dim if ":" in dim else f"{dim}:{known[dim]}" for dim in shape.split(",")), tf.as_dtype(own))
            for name, (shape, own) in targets.items()
        }

    def loss(self, **inputs: mtf.Tensor) -> tuple[mtf.Tensor, dict[str, mtf.Tensor]]:
        """Returns the loss and the measures; the network computes as in training, except for held-out cases."""
        images = {name: inputs.pop(name) for name in self.input_names}
        result = self._loss(self._network(training=not is_inference(), **images), **inputs)
        return result if isinstance(result, tuple) else (result, {})

    def predict(self, **inputs: mtf.Tensor) -> Any:
        """Returns the prediction for an image."""
        outputs = self._network(**inputs)
        return self._predict(outputs) if self._predict else outputs


def task(
    network: TrainableNetwork,
    loss: Callable[..., Any],
    targets: Mapping[str, tuple[str, str]] | None = None,
    predict: Callable[[Any], Any] | None = None,
) -> NetworkTask:
    """Returns a task that `mi.jobs.train` trains: a network with a loss.

    Args:
      network: the network. The spatial dimensions of its inputs are called x, y and z.
      loss: a function `loss(outputs, labels)` of the outputs of the network and of the targets by name. It returns a
        scalar Tensor, or a pair of it and a dict of measures.
      targets: {name: (dimensions, dtype)} of the inputs that only the loss needs, such as
        `{"target": ("batch,x,y,channels:2", "float32")}`. Dimensions of the image need no size. The default is
        `labels`, an int32 Tensor[batch, spatial...].
      predict: a function from the outputs of the network to the prediction, such as a softmax; None for the outputs.

    Returns:
      The task.
    """
    return NetworkTask(network, loss, targets, predict)
