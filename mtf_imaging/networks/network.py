"""A network of another library as a function of named tensors."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import ConfigError, ShapeError
from mtf_imaging.networks.conversion import Weight, convert, refuse, unknown_operations
from mtf_imaging.networks.graph import Graph, without_activation
from mtf_imaging.networks.idioms import fused
from mtf_imaging.training.checkpoints.weights_folder import Weights, find_weights

_SPATIAL = ("x", "y", "z")
_BATCH, _CHANNELS = "batch", "channels"

Shape = tuple[int | None, ...]


class Source(Protocol):
    """Where a network comes from.

    Attributes:
      title: the network, for error messages.
      signature: {name of an input: its shape, with None for sizes that are free, and its dtype}.
      weights: the variables by name.
    """

    @property
    def title(self) -> str: ...

    @property
    def signature(self) -> Mapping[str, tuple[Shape, tf.DType]]: ...

    @property
    def weights(self) -> Mapping[str, Weight]: ...

    def trace(self, shapes: Mapping[str, tuple[int, ...]], training: bool) -> Graph:
        """Returns the graph for inputs with some shapes."""

    def export(self, values: Mapping[str, np.ndarray]) -> Any:
        """Returns the original network with other values of its variables."""


class Network:
    """A network of Keras or TensorFlow, as a function of named tensors with variables of its own.

        network = mi.networks.load(model)
        program = mi.Program(network, network.inputs(x=16, y=24, z=16), mesh_shape="rows:2", layout="x:rows")
        program(image=volume)  # equals model(volume)

    Its outputs and gradients equal those of the original under every layout. Spatial dimensions keep their names
    through convolutions, pools and up-sampling, and the last dimension is called `channels`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._graphs: dict[tuple, Graph] = {}

    @property
    def weights(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(name for name, each in self._source.weights.items() if each.dtype.is_floating)

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The original values of the variables, by name."""
        return {name: self._source.weights[name].read() for name in self.weights}

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(self._source.signature)

    @property
    def rank(self) -> int:
        """The number of axes between the batch and the channels."""
        return max(0, *(len(shape) - 2 for shape, _ in self._source.signature.values()))

    def inputs(self, batch: int | None = None, **sizes: int) -> dict[str, tuple[str, tf.DType]]:
        """Returns the inputs of a `Program`.

        Args:
          batch: size of the dimension `batch`, the first axis of each input; default: that of the network, or 1 if it
            is free.
          **sizes: sizes of the spatial dimensions, such as `x=16, y=24, z=16`, in the order of the axes. The names are
            free. Sizes that are left out are those with which the network was built. `channels` is the last axis.

        Returns:
          {name of an input: (shape, dtype)}. A single input is called `image`.

        Raises:
          ShapeError: the sizes do not fit the axes of the network.
          NotSupportedError: operations of the network are unknown. The error lists all of them.
        """
        channels, signature, title = sizes.pop(_CHANNELS, None), self._source.signature, self._source.title
        rank = self.rank
        names = [*sizes] or list(_SPATIAL[:rank])
        if len(names) != rank:
            raise ShapeError(
                f"{title}: sizes for {', '.join(names)} were given, but its inputs have {rank} axes between the batch "
                f"and the channels: {_described(signature)}. Fix: give one size for each of these axes."
            )
        shapes: dict[str, tuple[int, ...]] = {}
        specs = {}
        largest = max((shape for shape, _ in signature.values()), key=len)
        built = dict(zip(names, largest[1:-1]))
        for key, (shape, dtype) in signature.items():
            dims = [_BATCH, *names[: max(0, len(shape) - 2)], _CHANNELS][: len(shape)]
            given = {_BATCH: batch or shape[0] or 1, **sizes, _CHANNELS: shape[-1] or channels}
            full = {
                # An input that was built with another size than the first one keeps it, such as a half resolution.
                name: own if own and own != built.get(name, own) else given.get(name) or own
                for name, own in zip(dims, shape, strict=True)
            }
            missing = [name for name, size in full.items() if not size]
            if missing:
                raise ShapeError(
                    f"{title}: the input '{key}' has no fixed size of {' and '.join(missing)}: "
                    f"{_described(signature)}. Fix: call network.inputs({', '.join(f'{name}=64' for name in missing)})."
                )
            shapes[key] = tuple(int(size) for size in full.values() if size)
            specs[key] = ",".join(f"{name}:{size}" for name, size in full.items()), dtype
        refuse(title, unknown_operations(self.graph(shapes)))
        return specs

    def __call__(self, *, training: bool = False, logits: bool = False, **tensors: mtf.Tensor) -> Any:
        """Computes the network.

        Args:
          training: whether to compute as in training: batch norms use the statistics of the batch and update their
            moving averages, and dropouts drop.
          logits: whether to leave out a softmax or sigmoid at the end.
          **tensors: a Tensor[batch, spatial..., channels] for each input, by name.

        Returns:
          A Tensor[batch, spatial..., channels], or a dict of them if the network has several outputs.

        Raises:
          ConfigError, ShapeError: the inputs are others than those of the network.
          NotSupportedError: operations cannot be converted. The error lists all of them.
        """
        signature = self._source.signature
        if tensors.keys() != signature.keys():
            raise ConfigError(
                f"{self._source.title}: it has the inputs {', '.join(signature)}, but the call has "
                f"{', '.join(tensors) or 'none'}. Fix: pass these inputs by name."
            )
        shapes = {key: tuple(x.shape.to_integer_list) for key, x in tensors.items()}
        for key, given in shapes.items():
            own = signature[key][0]
            what, needed, found = "axes", len(own), len(given)
            if needed == found:
                what, needed, found = "channels", own[-1] or given[-1], given[-1]
            if needed != found:
                raise ShapeError(
                    f"{self._source.title}: its input '{key}' has {needed} {what}, but the image has {found}: "
                    f"{tensors[key].shape}. Fix: give images with {needed} {what}."
                )
        graph = self.graph(shapes, training)
        graph = without_activation(graph) if logits else graph
        outputs = convert(self._source.title, graph, tensors, self._source.weights)
        results = {}
        for name, array in outputs.items():
            whole = array.single(*range(len(array.axes)), name=_CHANNELS)
            results[name] = whole.laid()
        return next(iter(results.values())) if len(results) == 1 else results

    def export(self, trained: Program | str | Path) -> Any:
        """Writes trained variables into the original network.

        Args:
          trained: a program that calls this network, or the folder of a run that trained it.

        Returns:
          The original network; for a Keras model, the model itself, whose `predict` then equals the program.

        Raises:
          CheckpointError: the folder holds no intact checkpoint.
          ConfigError: variables of the network are missing.
        """
        if isinstance(trained, Program):
            values = {name: variable.numpy() for name, variable in trained.variables.items() if name in self.weights}
        else:
            stored = Weights(find_weights(trained))
            values = dict(stored.read([name for name in self.weights if name in stored.shapes]))
        missing = [name for name in self.weights if name not in values]
        if missing:
            what = "program" if isinstance(trained, Program) else f"run {trained}"
            raise ConfigError(
                f"{self._source.title}: the {what} has no variable '{missing[0]}'"
                f"{f' nor {len(missing) - 1} others' if len(missing) > 1 else ''}. Fix: pass one that has this network."
            )
        shapes = {name: self._source.weights[name].shape for name in values}
        return self._source.export({name: np.reshape(value, shapes[name]) for name, value in values.items()})

    def graph(self, shapes: Mapping[str, tuple[int, ...]], training: bool = False) -> Graph:
        """Returns the graph of the original network.

        Args:
          shapes: {name of an input: its shape}.
          training: whether it is the graph for training.
        """
        key = (training, *shapes.items())
        if key not in self._graphs:
            with tf.init_scope():
                self._graphs[key] = fused(self._source.trace(shapes, training), self._source.weights)
        return self._graphs[key]


def _described(signature: Mapping[str, tuple[Shape, tf.DType]]) -> str:
    return ", ".join(f"{name} {['any' if n is None else n for n in shape]}" for name, (shape, _) in signature.items())
