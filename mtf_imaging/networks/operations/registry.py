"""The table of operations: what each TensorFlow operation computes on named arrays."""

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import NotSupportedError
from mtf_imaging.networks.graph import Node


@dataclasses.dataclass(frozen=True)
class NodeCall:
    """One node.

    Attributes:
      node: the node, whose text names it, with a mapping `attributes` of its settings.
    """

    node: Any

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a setting of the node."""
        return self.node.attributes.get(name, default)

    def refuse(self, why: str, fix: str) -> NotSupportedError:
        """Returns an error about the node."""
        return NotSupportedError(f"{self.node} {why}. Fix: {fix}.")

    def numbers(self, value: object, what: str) -> np.ndarray:
        """Returns an input that must be constant.

        Raises:
          NotSupportedError: the input depends on the values of a tensor.
        """
        if not isinstance(value, np.ndarray):
            raise self.refuse(
                f"has {what} that depend on the values of a tensor, but shapes must be known before the network runs",
                "compute them from shapes or constants",
            )
        return value

    def ints(self, value: object, what: str) -> list[int]:
        """Returns an input that must be constant, as a list of ints."""
        return [int(n) for n in np.ravel(self.numbers(value, what))]


def raw(operation: str, *inputs: object, **settings: object) -> Any:
    """Calls an operation of TensorFlow by its name.

    Args:
      operation: name of the operation, such as "Sqrt".
      *inputs: its inputs, in its order.
      **settings: its settings; others are ignored.
    """
    function = getattr(tf.raw_ops, operation)
    names = [*inspect.signature(function).parameters]
    own = {name: settings[name] for name in names if name in settings}
    return function(**own, **dict(zip(names, inputs)))


def unknown(names: Mapping[str, Sequence[str]], known: Collection[str]) -> list[str]:
    """Returns a line for each operation of {operation: names of its nodes} that is not known."""
    return [
        f"{each} {', '.join(map(repr, own[:3]))}{f' and {len(own) - 3} more' if len(own) > 3 else ''} is unknown"
        for each, own in names.items()
        if each not in known
    ]


@dataclasses.dataclass(frozen=True)
class Operation:
    """An entry of the table.

    Attributes:
      convert: a function from a `Call` and the values of the inputs to the output, or to a tuple of outputs.
      is_pure: whether an operation on constants alone is computed when the network is converted.
      ours: the function of `mi.ops` or `mtf` that computes it, for the documentation.
    """

    convert: Callable[..., Any]
    is_pure: bool
    ours: str


@dataclasses.dataclass(frozen=True)
class Call(NodeCall):
    """One node that is converted.

    Attributes:
      node: the node.
      mesh: the mesh of the tensors.
      spatial: names of the spatial dimensions of the network's inputs.
      state: the variables of the network.
    """

    node: Node
    mesh: mtf.Mesh
    spatial: frozenset[str]
    state: Any


OPERATIONS: dict[str, Operation] = {}

# Operations of TensorFlow that compute shapes. They are computed from constants, and have no counterpart here.
CONSTANT_ONLY = {"BroadcastArgs", "InvertPermutation", "LinSpace", "ListDiff", "Prod", "Range"}


def operation(*names: str, ours: str, is_pure: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the conversion of TensorFlow operations.

    Args:
      *names: names of the operations.
      ours: what computes it here, for the documentation.
      is_pure: whether it has a value without a mesh if its inputs are constants.
    """

    def register(convert: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            OPERATIONS[name] = Operation(convert, is_pure, ours)
        return convert

    return register


def spatial_axes(call: Call, rank: int) -> tuple[Sequence[int], int]:
    """Returns the axes of the spatial dimensions and of the channels, given by the data format of the node."""
    if str(call.get("data_format", "N?C")).startswith("NC"):
        return range(2, rank), 1
    return range(1, rank - 1), rank - 1
