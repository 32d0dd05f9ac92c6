"""Converts a network's graph to operations on named tensors, node by node."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.weighing import weigh
from mtf_imaging.errors import NotSupportedError
from mtf_imaging.networks.array import Array, Axis
from mtf_imaging.networks.graph import CONSTANT, IF_INPUT, IF_OUTPUT, INPUT, VARIABLE, Graph, Node, Source
from mtf_imaging.networks.operations.randomness import Seed
from mtf_imaging.networks.operations.registry import CONSTANT_ONLY, OPERATIONS, Call, raw, unknown
from mtf_imaging.networks.values import Interleaved, Unnamed, Value, as_array, dtype_of, elementwise, reshaped, sizes_of

_IGNORED = {"NoOp", "Assert"}
_UPDATES: dict[str, Callable[..., mtf.Tensor] | None] = {
    "AssignVariableOp": None,
    "AssignAddVariableOp": mtf.add,
    "AssignSubVariableOp": mtf.sub,
}
_READS = {"ReadVariableOp"}
_ROWS = {"ResourceGather"}  # reads rows of a variable, as an embedding does
_BRANCHES = {"Switch", "Merge", IF_INPUT, IF_OUTPUT}
_JOINS = {"Merge", IF_OUTPUT}  # have a value if one of their inputs has none
_TAKE_INTERLEAVED = {"Identity", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "BatchToSpaceND"}
_LARGEST_CONSTANT = 2**27  # elements


@dataclasses.dataclass(frozen=True)
class Weight:
    """A variable of a network.

    Attributes:
      name: name of the variable here.
      shape: its shape in the network.
      dtype: its dtype.
      trainable: whether training changes it.
      read: a function that returns its value in the network.
    """

    name: str
    shape: tuple[int, ...]
    dtype: tf.DType
    trainable: bool
    read: Callable[[], np.ndarray]


@dataclasses.dataclass(frozen=True)
class _Handle:
    """The resource of a variable.

    Attributes:
      weight: the variable.
      is_conditional: whether it is used in a branch of which the values of tensors decide whether it is taken.
    """

    weight: Weight
    is_conditional: bool = False


class _Dead:
    """The value on the side of a Switch that is not taken."""


class _Missing:
    """A value that depends on an unsupported operation."""


class State:
    """The variables of a network while it is converted.

    Args:
      graph: the graph, for patterns of several nodes.
      mesh: the mesh of the tensors.
    """

    def __init__(self, graph: Graph, mesh: mtf.Mesh) -> None:
        self._nodes = {node.name: node for node in graph.nodes}
        self._mesh = mesh
        self._scope = tf.compat.v1.get_variable_scope()  # around the network; the operations of nodes have their own
        self._weights: dict[str, Unnamed] = {}
        self._assigned: dict[str, Value] = {}
        updates = [node for node in graph.nodes if node.operation in _UPDATES]
        self._updated = {self._nodes[self._skipped(node.inputs[0])[0]].value for node in updates}

    def read(self, weight: Weight) -> Value | Seed:
        """Returns the value of a variable, after the assignments so far.

        An integer variable is a table of positions, or the state of a random generator if the network assigns it.
        """
        if not weight.dtype.is_floating:
            with tf.init_scope():
                return Seed() if weight.name in self._updated else weight.read()
        variable = self._variable(weight)
        if weight.name not in self._assigned:
            return variable
        # As in TensorFlow, gradients end at an assignment, and those by the new value are those by the variable.
        value = self._assigned[weight.name]
        stopped = value if isinstance(value, np.ndarray) else elementwise(mtf.stop_gradient, value)
        return elementwise(lambda old, new: (old - mtf.stop_gradient(old)) + new, variable, stopped)

    def assign(self, weight: Weight, value: Value | Seed) -> None:
        """Assigns a value to a variable."""
        if not isinstance(value, Seed):
            self._assigned[weight.name] = value

    def finish(self) -> None:
        """Assigns the last value of each variable when the program runs."""
        for name, value in self._assigned.items():
            variable = self._created(name) or self._weights[name].default().tensor
            full = mtf.Shape(variable.shape.dims)
            tensor = (
                mtf.constant(self._mesh, np.reshape(value, full.to_integer_list), full, variable.dtype)
                if isinstance(value, np.ndarray)
                else mtf.reshape(as_array(value).laid(), full)
            )
            mtf.assign(self._created(name) or variable, tensor)

    def ends_silu(self, node: Node) -> bool:
        """Returns whether the first two inputs of a node are `x sigmoid(beta x)` and x."""
        product, x, beta = (self._skipped(source) for source in node.inputs)
        factors = [self._skipped(source) for source in self._nodes[product[0]].inputs]
        if self._nodes[product[0]].operation != "Mul" or x not in factors:
            return False
        (sigmoid,) = [source for source in factors if source != x] or [x]
        if self._nodes[sigmoid[0]].operation != "Sigmoid":
            return False
        inner = self._skipped(self._nodes[sigmoid[0]].inputs[0])
        scaled = self._nodes[inner[0]]
        return inner == x or (scaled.operation == "Mul" and {*map(self._skipped, scaled.inputs)} == {x, beta})

    def _skipped(self, source: Source) -> Source:
        """Returns the source before identities."""
        while self._nodes[source[0]].operation in ("Identity", IF_INPUT):
            source = self._nodes[source[0]].inputs[0]
        return source

    def _created(self, name: str) -> mtf.Tensor | None:
        scope = self._scope.name
        variable = self._mesh.graph.name_to_variable.get(f"{scope}/{name}" if scope else name)
        return None if variable is None else variable.outputs[0]

    def _variable(self, weight: Weight) -> Unnamed:
        def build(axes: tuple[Axis, ...]) -> Array:
            found = self._created(weight.name)
            if found is not None:
                array = Array(found, [(dim,) for dim in found.shape.dims])
                return reshaped(array, weight.shape)
            dims = mtf.Shape([dim for axis in axes for dim in axis])
            with tf.init_scope():
                value = np.reshape(weight.read(), dims.to_integer_list)
            with tf.compat.v1.variable_scope(self._scope):
                tensor = mtf.get_variable(
                    self._mesh, weight.name, dims, dtype=weight.dtype, initializer=value, trainable=weight.trainable
                )
            return Array(tensor, axes)

        if weight.name not in self._weights:
            self._weights[weight.name] = Unnamed(weight.shape, weight.dtype, build)
        return self._weights[weight.name]


def unknown_operations(graph: Graph) -> list[str]:
    """Returns a line for each operation of a graph that has no conversion."""
    known = {*OPERATIONS, *CONSTANT_ONLY, *_UPDATES, *_READS, *_ROWS, *_BRANCHES, *_IGNORED, CONSTANT, INPUT, VARIABLE}
    return unknown(graph.operations, known)


def refuse(title: str, faults: list[str]) -> None:
    """Raises an error that lists faults.

    Raises:
      NotSupportedError: there are faults.
    """
    if faults:
        raise NotSupportedError(
            f"{title}: {len(faults)} of its operations cannot be converted:\n"
            + "\n".join(f"  {fault}" for fault in faults)
            + "\nFix: replace the layers with these names, or write the network in mi.layers and import its weights."
        )


def convert(
    title: str, graph: Graph, tensors: Mapping[str, mtf.Tensor], weights: Mapping[str, Weight]
) -> dict[str, Array]:
    """Computes a network on named tensors.

    Args:
      title: the network, for error messages.
      graph: its graph.
      tensors: the inputs by name.
      weights: the variables by name.

    Returns:
      The outputs by name.

    Raises:
      NotSupportedError: operations cannot be converted. The error lists all of them.
    """
    mesh = next(iter(tensors.values())).mesh
    state = State(graph, mesh)
    spatial = frozenset(dim.name for x in tensors.values() for dim in x.shape.dims[1:-1])
    values: dict[str, Any] = {}
    faults = unknown_operations(graph)

    def value_of(source: Source) -> Any:
        outputs, at = values[source[0]], source[1]
        return outputs[at] if isinstance(outputs, tuple) else outputs

    for node in graph.nodes:
        inputs = [value_of(source) for source in node.inputs]
        if any(isinstance(value, _Missing) for value in inputs):
            values[node.name] = _Missing()
            continue
        if any(isinstance(value, _Dead) for value in inputs) and node.operation not in _JOINS:
            values[node.name] = _Dead()
            continue
        try:
            with tf.compat.v1.variable_scope(node.name):  # the names of operations, for reports and errors
                values[node.name] = _value(Call(node, mesh, spatial, state), inputs, tensors, weights)
        except (ValueError, ArithmeticError) as error:
            values[node.name] = _Missing()
            text = str(error)
            faults.append(text if node.name in text else f"{node}: {text}")
    refuse(title, faults)
    state.finish()
    return {name: as_array(value_of(source)) for name, source in graph.outputs.items()}


def _value(call: Call, inputs: list[Any], tensors: Mapping[str, mtf.Tensor], weights: Mapping[str, Weight]) -> Any:
    """Returns the value of a node, or a tuple of its values."""
    node, state = call.node, call.state
    if node.operation == CONSTANT:
        return node.value
    if node.operation == INPUT:
        return Array(tensors[node.value], [(dim,) for dim in tensors[node.value].shape.dims])
    if node.operation == VARIABLE:
        weight = weights[node.value]
        return state.read(weight) if node.attributes.get("is_value") else _Handle(weight)
    if node.operation in _READS or (node.operation == "Identity" and isinstance(inputs[0], _Handle)):
        return state.read(inputs[0].weight) if node.operation in _READS else inputs[0]
    if node.operation in _ROWS:
        rows = dataclasses.replace(call, node=dataclasses.replace(node, operation="GatherV2"))
        return _value(rows, [state.read(inputs[0].weight), inputs[1], np.zeros([], np.int32)], tensors, weights)
    if node.operation in _UPDATES:
        weight, value, update = inputs[0].weight, inputs[1], _UPDATES[node.operation]
        if inputs[0].is_conditional:
            raise call.refuse(
                f"assigns the variable '{weight.name}' in a branch that depends on the values of a tensor",
                "assign a value that tf.where selects",
            )
        current = state.read(weight)
        if update and not isinstance(current, Seed):
            value = elementwise(update, current, value)
        return state.assign(weight, value)
    if node.operation in _BRANCHES:
        return _branch(call, inputs)
    entry = OPERATIONS.get(node.operation)
    if entry is None and node.operation not in CONSTANT_ONLY:
        return _Missing()
    if any(isinstance(value, Seed) for value in inputs) and (entry is None or entry.is_pure):
        return Seed()
    if node.operation not in _TAKE_INTERLEAVED:
        inputs = [value.array if isinstance(value, Interleaved) else value for value in inputs]
    if all(isinstance(value, np.ndarray) for value in inputs) and (entry is None or entry.is_pure):
        return _folded(call, inputs)
    if entry is None:
        raise call.refuse("depends on the values of a tensor", "compute it from shapes or constants")
    return entry.convert(call, *inputs)


def _branch(call: Call, inputs: list[Any]) -> Any:
    """Returns the outputs of a Switch or a Merge of TensorFlow 1, whose condition must be constant, or of an If."""
    if call.node.operation == IF_INPUT and not isinstance(inputs[1], np.ndarray):
        return _for_branches(call, *inputs)
    if call.node.operation == IF_OUTPUT:
        return _selected(call, *inputs)
    if call.node.operation in ("Switch", IF_INPUT):
        value, condition = inputs
        is_true = bool(call.numbers(condition, "conditions"))
        return (_Dead(), value) if is_true else (value, _Dead())
    alive = [i for i, value in enumerate(inputs) if not isinstance(value, _Dead)]
    if len(alive) != 1:
        raise call.refuse("is a loop, or joins no branch that is taken", "write the network without it")
    return inputs[alive[0]], np.array(alive[0], np.int32)


def _for_branches(call: Call, value: Any, condition: Any) -> tuple[Any, Any]:
    """Returns an input of an If for its branches (else, then), if the values of tensors decide which one is taken."""
    if isinstance(value, _Handle):
        return (_Handle(value.weight, is_conditional=True),) * 2
    value = value.array if isinstance(value, Interleaved) else value
    if not isinstance(value, Array) or not value.dtype.is_floating:
        return value, value
    # The other branch computes with 0. Its gradient by the input, which may be infinite there, is 0.
    taken = mtf.stop_gradient(mtf.cast(as_array(condition).without_loose().tensor, value.dtype))
    otherwise, then = (Array(weigh(value.tensor, mask), value.axes) for mask in (1 - taken, taken))
    return otherwise, then


def _selected(call: Call, condition: Value, then: Any, otherwise: Any) -> Any:
    """Returns an output of an If: that of the branch that is taken, or of both, if the values of tensors decide."""
    if isinstance(condition, _Dead | np.ndarray):
        return condition if isinstance(condition, _Dead) else then if condition else otherwise
    pair = [value.array if isinstance(value, Interleaved) else value for value in (then, otherwise)]
    if not all(isinstance(value, Value) for value in pair):
        raise call.refuse("chooses variables or random generators by the values of a tensor", "use no tf.cond")
    if sizes_of(pair[0]) != sizes_of(pair[1]) or not dtype_of(pair[0]).is_floating:
        described = " or ".join(f"{dtype_of(value).name} {list(sizes_of(value))}" for value in pair)
        raise call.refuse(
            f"is {described}, as the values of a tensor decide", "use floats of the same shape in both branches"
        )

    def select(condition: mtf.Tensor, *pair: Any) -> mtf.Tensor:
        dtype = dtype_of(then)
        taken = mtf.stop_gradient(mtf.cast(condition, dtype))
        a, b = (x if isinstance(x, mtf.Tensor) else mtf.constant(call.mesh, x, mtf.Shape([]), dtype) for x in pair)
        return weigh(a, taken) + weigh(b, 1 - taken)

    return elementwise(select, condition, *pair)


def _folded(call: Call, inputs: list[np.ndarray]) -> Any:
    """Returns the value of an operation on constants."""
    node = call.node
    if node.operation in ("Fill", "BroadcastTo", "Tile"):
        sizes = inputs[0] if node.operation == "Fill" else inputs[1]
        repeats = inputs[0].size if node.operation == "Tile" else 1
        if math.prod(map(int, np.ravel(sizes))) * repeats > _LARGEST_CONSTANT:
            raise call.refuse(
                f"has a constant of the sizes {sizes.tolist()}, and the limit is {_LARGEST_CONSTANT} elements",
                "broadcast a smaller constant",
            )
    with tf.init_scope(), tf.device("CPU:0"):
        given: list[Any] = [tf.constant(value) for value in inputs]
        if "N" in node.attributes:
            given = [given[: node.attributes["N"]], *given[node.attributes["N"] :]]
        result = raw(node.operation, *given, **node.attributes)
        if isinstance(result, tf.Tensor):
            return np.asarray(result.numpy())
        return tuple(np.asarray(each.numpy()) for each in result)
