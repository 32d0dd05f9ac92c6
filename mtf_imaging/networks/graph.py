"""The neutral form of a network's graph: a list of nodes, with functions inlined."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import function_graph

CONSTANT, INPUT, VARIABLE = "Const", "Input", "Variable"
BATCH_NORM = "BatchNormInTraining"  # not an operation of TensorFlow; see `idioms`
# The inputs `(value, condition)` and outputs `(condition, then, else)` of an If whose branches are inlined.
IF_INPUT, IF_OUTPUT = "IfInput", "IfOutput"
CALLS = ("PartitionedCall", "StatefulPartitionedCall", "RemoteCall")
_CONDITIONALS = ("If", "StatelessIf")
_ACTIVATIONS = ("Softmax", "Sigmoid")
_ASSIGNMENTS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")

Source = tuple[str, int]  # the name of a node and the number of its output


@dataclasses.dataclass(frozen=True)
class Node:
    """One operation of a graph.

    Attributes:
      name: name in the original graph, which begins with the names of the layers around it.
      operation: name of the operation, such as "Conv2D".
      inputs: the sources of its inputs.
      attributes: its settings.
      value: the value of a constant, or the name of an input or a variable.
    """

    name: str
    operation: str
    inputs: tuple[Source, ...] = ()
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    value: Any = None

    def __str__(self) -> str:
        return f"{self.operation} '{self.name}'"


@dataclasses.dataclass(frozen=True)
class Graph:
    """A network's graph.

    Attributes:
      nodes: the nodes on which the outputs and assignments depend, each after its inputs.
      outputs: {name of an output: its source}.
    """

    nodes: tuple[Node, ...]
    outputs: Mapping[str, Source]

    @property
    def operations(self) -> dict[str, list[str]]:
        """The names of the nodes of each operation."""
        names: dict[str, list[str]] = {}
        for node in self.nodes:
            names.setdefault(node.operation, []).append(node.name)
        return names


def read(
    graph: tf.Graph,
    leaf: Callable[[tf.Operation], Node | None],
    outputs: Mapping[str, tf.Tensor],
    updates: bool = True,
) -> Graph:
    """Reads a TensorFlow graph.

    Args:
      graph: the graph.
      leaf: a function that returns the node for an operation without inputs: an input, a variable or a constant of the
        network; None for other operations.
      outputs: the outputs by name.
      updates: whether to read assignments on which no output depends.
    """
    nodes: dict[str, Node] = {}
    library = {function.signature.name: function for function in graph.as_graph_def().library.function}

    def add(operations: Iterable[tf.Operation], prefix: str, given: dict[str, Source]) -> dict[str, Source]:
        """Adds nodes, and returns the sources of all tensors by name."""
        sources = dict(given)
        for op in operations:
            if op.outputs and all(tensor.name in given for tensor in op.outputs):
                continue
            inputs = tuple(sources[tensor.name] for tensor in op.inputs)
            name = prefix + op.name
            if op.type in CALLS:
                results = inlined(op, "f", f"{name}/", inputs)
                sources |= {tensor.name: source for tensor, source in zip(op.outputs, results, strict=True)}
                continue
            if op.type in _CONDITIONALS:
                condition, *values = inputs
                for i, value in enumerate(values):
                    nodes[f"{name}/{i}"] = Node(f"{name}/{i}", IF_INPUT, (value, condition))
                otherwise, then = (
                    inlined(op, branch, f"{name}/{branch}/", [(f"{name}/{i}", side) for i in range(len(values))])
                    for side, branch in enumerate(("else_branch", "then_branch"))
                )
                for i, (tensor, *pair) in enumerate(zip(op.outputs, then, otherwise, strict=True)):
                    nodes[f"{name}/output_{i}"] = Node(f"{name}/output_{i}", IF_OUTPUT, (condition, *pair))
                    sources[tensor.name] = (f"{name}/output_{i}", 0)
                continue
            node = leaf(op) or _node(op, name, inputs)
            nodes[name] = dataclasses.replace(node, name=name)
            sources |= {tensor.name: (name, i) for i, tensor in enumerate(op.outputs)}
        return sources

    def inlined(op: tf.Operation, attribute: str, prefix: str, inputs: Sequence[Source]) -> list[Source]:
        """Adds the nodes of the function in an attribute of an operation, and returns the sources of its outputs."""
        body = function_graph(library[op.get_attr(attribute).name], graph)
        called = {inner.name: source for inner, source in zip(body.inputs, inputs, strict=True)}
        inner_sources = add(body.get_operations(), prefix, called)
        return [inner_sources[inner.name] for inner in body.outputs]

    operations = graph.get_operations()
    sources = add(operations if updates else upstream(operations, outputs.values()), "", {})
    found = {name: sources[tensor.name] for name, tensor in outputs.items()}
    return Graph(_needed(nodes, found, updates), found)


def rewired(nodes: Iterable[Node], outputs: Mapping[str, Source], moved: Mapping[Source, Source]) -> Graph:
    """Returns the graph of some nodes, each after its inputs and otherwise in the given order.

    Args:
      nodes: the nodes.
      outputs: the outputs by name.
      moved: the sources that replace others.
    """

    def own(source: Source) -> Source:
        return moved.get(source, source)

    found = {node.name: dataclasses.replace(node, inputs=tuple(map(own, node.inputs))) for node in nodes}
    ends = {name: own(source) for name, source in outputs.items()}
    placed: dict[str, Node] = {}
    pending = [(node, False) for node in reversed(_needed(found, ends, True))]
    while pending:
        node, is_ready = pending.pop()
        if is_ready:
            placed[node.name] = node
        elif node.name not in placed:
            pending += [(node, True), *((found[name], False) for name, _ in node.inputs)]
    return Graph(tuple(placed.values()), ends)


def without_activation(graph: Graph) -> Graph:
    """Returns a graph whose outputs are the logits where they were the softmax or the sigmoid of them."""
    nodes = {node.name: node for node in graph.nodes}

    def logits(source: Source) -> Source:
        end = nodes[source[0]]
        while end.operation == "Identity":
            end = nodes[end.inputs[0][0]]
        return end.inputs[0] if end.operation in _ACTIVATIONS else source

    outputs = {name: logits(source) for name, source in graph.outputs.items()}
    return Graph(_needed(nodes, outputs, True), outputs)


def upstream(
    operations: Iterable[tf.Operation],
    outputs: Iterable[tf.Tensor],
    is_input: Callable[[tf.Operation], bool] = lambda op: False,
) -> list[tf.Operation]:
    """Returns the operations on which outputs depend, up to the inputs."""
    pending, needed = [tensor.op for tensor in outputs], set()
    while pending:
        op = pending.pop()
        if op.name not in needed:
            needed.add(op.name)
            pending += [] if is_input(op) else [tensor.op for tensor in op.inputs]
    return [op for op in operations if op.name in needed]


def _needed(nodes: Mapping[str, Node], outputs: Mapping[str, Source], updates: bool) -> tuple[Node, ...]:
    pending = [name for name, _ in outputs.values()]
    pending += [node.name for node in nodes.values() if updates and node.operation in _ASSIGNMENTS]
    pending += [node.name for node in nodes.values() if node.operation == INPUT]
    needed: set[str] = set()
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += [source for source, _ in nodes[name].inputs]
    return tuple(node for name, node in nodes.items() if name in needed)


def _node(op: tf.Operation, name: str, inputs: tuple[Source, ...]) -> Node:
    if op.type == CONSTANT:
        value = tf.make_ndarray(op.node_def.attr["value"].tensor)
        return Node(name, CONSTANT, (), {}, np.asarray(value))
    names = [key for key in op.node_def.attr if not key.startswith("_") or key == "_gradient_op_type"]
    return Node(name, op.type, inputs, {key: _plain(op.get_attr(key)) for key in names})


def _plain(value: Any) -> Any:
    """Returns the setting of an operation without TensorFlow's bytes."""
    if isinstance(value, bytes):
        return value.decode()
    return [_plain(each) for each in value] if isinstance(value, list) else value
