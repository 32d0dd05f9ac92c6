"""The activations of a trained network, by the names of its operations and scopes."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.program.program import Program
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.errors import ConfigError, ShapeError
from mtf_imaging.inference.network import Network, Prediction, image_sizes, of_each, one_batch
from mtf_imaging.spelling import did_you_mean

_BATCH = "batch"


@dataclasses.dataclass(frozen=True)
class TrainedNetwork(Network):
    """A network whose activations can be computed as well.

    Attributes:
      sizes: the sizes of images along the spatial dimensions.
      activations_of: returns the activations for images of some sizes.
    """

    sizes: tuple[int, ...]
    activations_of: Callable[[tuple[int, ...]], "Activations"]

    def __call__(self, image: Any) -> Prediction:
        """Returns the prediction for a whole image, in every process.

        Raises:
          ShapeError: the image has another number of dimensions, or other inputs.
        """
        return super().__call__(self._as_image(image))

    @property
    def activation_names(self) -> tuple[str, ...]:
        """The names of all activations, in the order of their computation."""
        return self.activations_of(self.sizes).names

    def activations(self, image: Any, names: str | Sequence[str]) -> Any:
        """Computes activations for a whole image, in every process; see `Activations.compute`.

        Raises:
          ShapeError: the image has another number of dimensions.
        """
        image = self._as_image(image)
        return self.activations_of(image_sizes(one_batch(image))).compute(image, names)

    def _as_image(self, image: Any) -> Any:
        image = of_each(np.asarray, image)
        if len(image_sizes(one_batch(image))) != len(self.sizes):
            shape = of_each(np.shape, image)
            raise ShapeError(
                f"the image has the shape {shape}, but the network needs {len(self.sizes)} spatial dimensions "
                "and the channels. Fix: pass an array [spatial dimensions..., channels], without a batch dimension."
            )
        return image


class Activations:
    """The activations of a network for one image.

    An activation is a tensor with the dimension `batch`. It has the name of its operation, such as
    `encoder/conv/conv3d`. A scope, such as `encoder/conv`, stands for the last operation in it, so a layer stands for
    its result.

    Args:
      predict: the function of a program, which computes the network.
      inputs: the inputs of the function, as in `Program`.
      program: the program of the network, whose weights are used.
      mesh_impl: the mesh implementation, as in `Program`.
    """

    def __init__(self, predict: Callable[..., Any], inputs: dict[str, Any], program: Program, mesh_impl: str) -> None:
        self._predict, self._inputs, self._program, self._mesh_impl = predict, inputs, program, mesh_impl
        self._build = functools.cache(self._build_program)

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all activations, in the order of their computation."""
        return tuple(_activations(trace_only(self._predict, self._inputs, self._program.layout).graph, self._inputs))

    def compute(self, image: Any, names: str | Sequence[str]) -> Any:
        """Computes activations; the first call for some names builds a program.

        Args:
          image: array [spatial dimensions..., channels]; a dict of arrays if the network has several inputs.
          names: a name, or several names.

        Returns:
          The activation as an array without the dimension `batch`; for several names, a dict of such arrays by name.

        Raises:
          ConfigError: an activation does not exist.
        """
        several = (names,) if isinstance(names, str) else tuple(dict.fromkeys(names))
        unknown = [name for name in several if name not in self.names]
        if unknown:
            raise ConfigError(
                f"activations: the network has no activation '{unknown[0]}'.{did_you_mean(unknown[0], self.names)} "
                f"Fix: use a name that activation_names lists, such as '{self.names[0]}'."
            )
        images = one_batch(image if isinstance(image, Mapping) else {next(iter(self._inputs)): image})
        arrays = {name: _plain(array) for name, array in self._build(several)(**images).items()}
        return arrays[names] if isinstance(names, str) else arrays

    def _build_program(self, names: tuple[str, ...]) -> Program:
        def compute(**inputs: mtf.Tensor) -> dict[str, mtf.Tensor]:
            self._predict(**inputs)
            found = _activations(next(iter(inputs.values())).graph, inputs)
            return {name: _batch_first(found[name]) for name in names}

        return Program(
            compute,
            self._inputs,
            layout=self._program.layout,
            mesh_impl=self._mesh_impl,
            variables=self._program,
            updates="none",
            may_repeat=True,
        )


def _activations(graph: mtf.Graph, inputs: Collection[str]) -> dict[str, mtf.Tensor]:
    """Returns the activations of a graph by name; a scope stands for the last activation in it."""
    found: dict[str, mtf.Tensor] = {}
    for op in graph.operations:
        tensors = [tensor for tensor in op.outputs if _BATCH in tensor.shape.dimension_names]
        if not tensors or op.name in inputs:
            continue
        scopes = op.name.split("/")[:-1]
        names = ["/".join(scopes[:depth]) for depth in range(len(scopes), 0, -1)]
        for number, tensor in enumerate(tensors):
            for name in [op.name if number == 0 else f"{op.name}:{number}", *(names if number == 0 else [])]:
                found.pop(name, None)  # a scope comes after its last operation
                found[name] = tensor
    return found


def _batch_first(x: mtf.Tensor) -> mtf.Tensor:
    """Returns a tensor whose first dimension is the batch."""
    dims = sorted(x.shape.dims, key=lambda dim: dim.name != _BATCH)  # keeps the order of the others
    return x if dims == x.shape.dims else mtf.transpose(x, mtf.Shape(dims))


def _plain(tensor: tf.Tensor) -> np.ndarray:
    """Returns the array of the first image, in a NumPy dtype."""
    tensor = tensor[0]
    return tf.cast(tensor, tf.float32).numpy() if tensor.dtype in (tf.bfloat16, tf.float16) else tensor.numpy()
