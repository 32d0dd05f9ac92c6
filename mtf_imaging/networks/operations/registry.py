"""The table of operations: what each TensorFlow operation computes on named arrays."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mtf_imaging.engine.compat import mtf
from mtf_imaging.errors import NotSupportedError
from mtf_imaging.networks.graph import Node


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
class Call:
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

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a setting of the node."""
        return self.node.attributes.get(name, default)

    def refuse(self, why: str, fix: str) -> NotSupportedError:
        """Returns an error about the node."""
        return NotSupportedError(f"{self.node.operation} '{self.node.name}' {why}. Fix: {fix}.")

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
