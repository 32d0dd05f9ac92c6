"""The table of ONNX operators: what each of them computes, as operations of TensorFlow.

The functions are called in a graph of TensorFlow, in which sizes are known, or eagerly. A value is a tensor, or a NumPy
array if it does not depend on the inputs and weights. Tensors have the axes of the file.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.networks.operations.registry import NodeCall

Value = Any  # a tf.Tensor, or an np.ndarray
Function = Callable[..., Any]

_LONGEST = 2**20  # voxels along an axis, in a window or in a padding


@dataclasses.dataclass(frozen=True)
class OnnxNode:
    """A node of an ONNX graph.

    Attributes:
      name: its name, or its operator and number.
      operator: its operator, with its domain if it is not one of ONNX.
      inputs, outputs: the names of its values; "" for one that is left out.
      attributes: its settings. A tensor is a NumPy array, and a graph is a `Branch`.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.operator} '{self.name}'"


@dataclasses.dataclass(frozen=True)
class Branch:
    """A graph, or a graph within a node.

    Attributes:
      nodes: its nodes, each after its inputs.
      constants: its constants by name.
      outputs: the names of its outputs.
    """

    nodes: list[OnnxNode]
    constants: Mapping[str, np.ndarray]
    outputs: list[str]


@dataclasses.dataclass(frozen=True)
class Fused:
    """An operation of the conversion that replaces several operations of TensorFlow.

    Attributes:
      operation: name of the operation, such as "Conv3D".
      name: name of the node.
      inputs, outputs: its tensors.
      attributes: its settings.
    """

    operation: str
    name: str
    inputs: Sequence[tf.Tensor]
    outputs: Sequence[tf.Tensor]
    attributes: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Call(NodeCall):
    """One node that is computed.

    Attributes:
      node: the node.
      opset: the version of the operators.
      training: whether to compute as in training.
      fusions: the operations that were replaced so far.
      updates: (value of a weight, its new value) of the updates so far.
    """

    node: OnnxNode
    opset: int
    training: bool
    fusions: list[Fused]
    updates: list[tuple[Value, Value]]

    def check_lengths(self, lengths: Iterable[int]) -> None:
        """Checks that numbers of voxels are not absurd, so that a damaged file does not fill the memory."""
        longest = max(map(abs, lengths), default=0)
        if longest > _LONGEST:
            raise self.refuse(f"has a length of {longest}, and the limit is {_LONGEST}", "export the network again")

    def axes(self, value: Value | None, default: Sequence[int]) -> list[int]:
        """Returns axes that are a setting in older opsets, and an input in newer ones."""
        return self.get("axes", list(default)) if value is None else self.ints(value, "axes") or list(default)

    def fused(
        self, operation: str, inputs: Sequence[Value], outputs: Sequence[tf.Tensor], **attributes: Any
    ) -> list[tf.Tensor]:
        """Returns the outputs, which the conversion computes with one operation instead of those of TensorFlow.

        Args:
          operation: name of the operation of the conversion.
          inputs: its inputs.
          outputs: its outputs, computed with operations of TensorFlow.
          **attributes: its settings.
        """
        if not tf.executing_eagerly():
            tensors = [tf.convert_to_tensor(value) for value in inputs]
            scope = tf.compat.v1.get_default_graph().get_name_scope()
            name = tf.compat.v1.get_default_graph().unique_name(f"{scope}/{operation}", mark_as_used=True)
            self.fusions.append(Fused(operation, name, tensors, outputs, attributes))
        return list(outputs)


OPERATORS: dict[str, Function] = {}


def operator(*names: str) -> Callable[[Function], Function]:
    """Registers a function of a `Call` and the inputs as the meaning of ONNX operators."""

    def register(function: Function) -> Function:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


def sizes(x: Value) -> list[int]:
    """Returns the sizes of the axes."""
    return [int(n) for n in x.shape]


def channels_last(x: Value) -> tf.Tensor:
    """Returns `[batch, channels, spatial...]` as `[batch, spatial..., channels]`."""
    return tf.transpose(x, [0, *range(2, len(x.shape)), 1])


def channels_first(x: tf.Tensor) -> tf.Tensor:
    """Returns `[batch, spatial..., channels]` as `[batch, channels, spatial...]`."""
    return tf.transpose(x, [0, len(x.shape) - 1, *range(1, len(x.shape) - 1)])


def of_channels(value: Value, rank: int) -> tf.Tensor:
    """Returns a vector with a value for each channel so that it is broadcast to `[batch, channels, spatial...]`."""
    return tf.reshape(value, [1, -1, *[1] * (rank - 2)])
