"""An ONNX network as a source of graphs, with channels last outside."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.errors import reason
from mtf_imaging.networks import graph as graphs
from mtf_imaging.networks.conversion import Weight, refuse
from mtf_imaging.networks.graph import INPUT, VARIABLE, Graph, Node, Source
from mtf_imaging.networks.network import Shape
from mtf_imaging.networks.onnx.axes import input_channels, output_channels
from mtf_imaging.networks.onnx.registry import (
    OPERATORS,
    Branch,
    Call,
    Fused,
    OnnxNode,
    Value,
    channels_first,
    channels_last,
    sizes,
)
from mtf_imaging.networks.operations.registry import unknown
from mtf_imaging.networks.sources import add_weight, input_names

_LARGEST_CONSTANT = 2**27  # elements
# What TensorFlow and NumPy raise if settings or sizes do not fit.
_FAULTS = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, NotImplementedError, MemoryError),
    tf.errors.OpError,
)

# {operator: positions of the inputs that are trained if they are constants in the file}
_PARAMETERS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Add", "Einsum", "MatMul", "Mul"), (0, 1)),
    **dict.fromkeys(("Conv", "ConvTranspose"), (1, 2)),
    **dict.fromkeys(("GroupNormalization", "InstanceNormalization", "LayerNormalization"), (1, 2)),
    **{"BatchNormalization": (1, 2, 3, 4), "Gather": (0,), "Gemm": (0, 1, 2), "PRelu": (1,)},
}
_STATISTICS = {("BatchNormalization", 3), ("BatchNormalization", 4)}
_SCALED = {"Add", "Mul"}  # A single number in them is a constant, such as a factor or an epsilon.
_REARRANGE = {"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}


class _Missing:
    """A value that depends on an operation that cannot be computed."""


class OnnxSource:
    """A network in an ONNX file.

    Args:
      title: the network, for error messages.
      opset: the version of its operators.
      graph: its nodes, constants and outputs.
      inputs: {name of an input: its shape in the file, with None for free sizes, and its dtype}.
      export: a function from weights by their names in the file to the network with these weights.
    """

    def __init__(
        self,
        title: str,
        opset: int,
        graph: Branch,
        inputs: Mapping[str, tuple[Sequence[int | None], Any]],
        export: Callable[[Mapping[str, np.ndarray]], Any],
    ) -> None:
        self.title = title
        self._opset, self._network, self._inputs, self._export = opset, graph, list(inputs), export
        refuse(title, unknown(_operators(graph.nodes), OPERATORS))
        self._channels = {name: input_channels(graph, name, len(shape)) for name, (shape, _) in inputs.items()}
        self.signature: dict[str, tuple[Shape, tf.DType]] = {
            key: (_moved(shape, self._channels[name]), tf.as_dtype(dtype))
            for key, (name, (shape, dtype)) in zip(input_names(self._inputs), inputs.items(), strict=True)
        }
        self._rank = max(len(shape) for shape, _ in inputs.values())
        self.weights: dict[str, Weight] = {}
        self._names: dict[str, str] = {}  # {name in the file: name of the variable}
        for name, is_trained in self._trained().items():
            self._names[name] = add_weight(self.weights, name, graph.constants[name], is_trained)

    def trace(self, shapes: Mapping[str, tuple[int, ...]], training: bool) -> Graph:
        fusions: list[Fused] = []
        updates: list[tuple[Value, Value]] = []
        kept: dict[str, Any] = {}

        @tf.function(autograph=False)
        def function(*tensors: tf.Tensor) -> list[tf.Tensor]:
            images, weights = tensors[: len(shapes)], tensors[len(shapes) :]
            outputs = self.compute(
                dict(zip(shapes, images)), dict(zip(self.weights, weights)), training, fusions, updates
            )
            own = [(old, f"{name}/update") for name, old in zip(self.weights, weights)]
            new = {key: value for old, value in updates for each, key in own if old is each}
            kept.update({name: tf.convert_to_tensor(value) for name, value in [*outputs.items(), *new.items()]})
            return [*kept.values()]

        specs = [tf.TensorSpec(shape, self.signature[key][1], name=key) for key, shape in shapes.items()]
        specs += [tf.TensorSpec(each.shape, each.dtype) for each in self.weights.values()]
        concrete = function.get_concrete_function(*specs)
        leaves = [Node(key, INPUT, value=key) for key in shapes]
        leaves += [Node(key, VARIABLE, attributes={"is_value": True}, value=key) for key in self.weights]
        found = dict(zip([x.op.name for x in concrete.inputs], leaves, strict=True))
        inputs = {f"{fused.name}/{i}": x for fused in fusions for i, x in enumerate(fused.inputs)}
        graph = _fused(graphs.read(concrete.graph, lambda op: found.get(op.name), {**inputs, **kept}), fusions, kept)
        return _with_updates(graph, self.weights)

    def compute(
        self,
        images: Mapping[str, tf.Tensor],
        weights: Mapping[str, tf.Tensor],
        training: bool = False,
        fusions: list[Fused] | None = None,
        updates: list[tuple[Value, Value]] | None = None,
    ) -> dict[str, Value]:
        """Computes the network with operations of TensorFlow.

        Args:
          images: the inputs by name, with channels last.
          weights: the variables by name.
          training: whether to compute as in training.
          fusions, updates: see `Call`.

        Returns:
          The outputs by name, with channels last.
        """
        values: dict[str, Any] = dict(self._network.constants)
        values |= {name: weights[own] for name, own in self._names.items()}
        for name, key in zip(self._inputs, self.signature, strict=True):
            values[name] = channels_first(images[key]) if self._channels[name] == 1 else images[key]
        run = _Run(self._opset, training, [] if fusions is None else fusions, [] if updates is None else updates)
        run.nodes(self._network.nodes, values)
        missing = [name for name in self._network.outputs if name not in values]
        refuse(
            self.title, [*run.faults, *(f"the output '{name}' of its node is not computed here" for name in missing)]
        )
        outputs = {}
        for name in self._network.outputs:
            value, rank = values[name], len(values[name].shape)
            is_first = rank == self._rank > 2 and output_channels(self._network, name, rank) == 1
            outputs[name] = channels_last(value) if is_first else value
        return outputs

    def export(self, values: Mapping[str, np.ndarray]) -> Any:
        return self._export({name: values[own] for name, own in self._names.items()})

    def _trained(self) -> dict[str, bool]:
        """Returns {name of a constant that becomes a variable: whether it is trained}, in the order of their use."""
        producers = {name: node for node in self._network.nodes for name in node.outputs}
        trained: dict[str, bool] = {}
        for node in self._network.nodes:
            for slot in _PARAMETERS.get(node.operator, ()):
                name = node.inputs[slot] if slot < len(node.inputs) else ""
                while name in producers and producers[name].operator in _REARRANGE:
                    name = next(iter(producers[name].inputs), "")
                value = self._network.constants.get(name)
                if value is None or not tf.as_dtype(value.dtype).is_floating:
                    continue
                if node.operator not in _SCALED or value.size > 1:
                    is_trained = (node.operator, slot) not in _STATISTICS
                    trained[name] = trained.get(name, True) and is_trained
        return trained


def _moved(shape: Sequence[int | None], channels: int) -> Shape:
    """Returns a shape with the channels as the last axis."""
    if len(shape) < 3:
        return tuple(shape)
    rest = [n for i, n in enumerate(shape) if i != channels]
    return (*rest, shape[channels])


@dataclasses.dataclass(frozen=True)
class _Run:
    """Computes nodes.

    Attributes:
      opset, training, fusions, updates: see `Call`.
      faults: the faults so far.
    """

    opset: int
    training: bool
    fusions: list[Fused]
    updates: list[tuple[Value, Value]]
    faults: list[str] = dataclasses.field(default_factory=list)

    def nodes(self, nodes: Sequence[OnnxNode], values: dict[str, Any]) -> None:
        """Adds the values of the outputs of nodes to `values`."""
        for node in nodes:
            inputs = [values.get(name, _Missing()) if name else None for name in node.inputs]
            values |= dict.fromkeys(node.outputs, _Missing())
            if any(isinstance(value, _Missing) for value in inputs):
                if any(name and name not in values for name in node.inputs):
                    self.faults.append(f"{node}: it needs an output that the node before it does not compute here")
                continue
            try:
                results = self._branch(node, inputs, values) if node.operator == "If" else self._results(node, inputs)
            except _FAULTS as error:
                text = reason(error).partition(" for '{{node")[0]
                self.faults.append(text if node.name in text else f"{node}: {text}")
                continue
            values |= dict(zip(node.outputs, results))
            for name in node.outputs[len(results) :]:
                values.pop(name, None)

    def _branch(self, node: OnnxNode, inputs: list[Any], values: dict[str, Any]) -> list[Any]:
        call = self._call(node)
        (condition,) = call.ints(inputs[0], "branches")
        branch: Branch = call.get("then_branch" if condition else "else_branch")
        inner = {**values, **branch.constants}
        self.nodes(branch.nodes, inner)
        return [inner[name] for name in branch.outputs]

    def _call(self, node: OnnxNode) -> Call:
        return Call(node, self.opset, self.training, self.fusions, self.updates)

    def _results(self, node: OnnxNode, inputs: list[Any]) -> list[Any]:
        function, call = OPERATORS[node.operator], self._call(node)

        def outputs() -> list[Any]:
            with tf.name_scope(_scope(node.name)):
                results = function(call, *inputs)
            return list(results) if isinstance(results, tuple | list) else [results]

        results = outputs()
        for value in results:
            if None in value.shape:
                raise call.refuse("has an output whose shape depends on values", "compute it from shapes or constants")
        if all(isinstance(value, np.ndarray) for value in results):
            return results
        if not all(value is None or isinstance(value, np.ndarray) for value in inputs):
            for value in results:
                if 0 in value.shape:
                    raise call.refuse(f"has an output {sizes(value)}, which is empty", "export the network without it")
            return results
        largest = max(int(np.prod(sizes(value), dtype=float)) for value in results)
        if largest > _LARGEST_CONSTANT:
            raise call.refuse(
                f"computes a constant with {largest} elements, and the limit is {_LARGEST_CONSTANT}",
                "broadcast a smaller constant",
            )
        with tf.init_scope(), tf.device("CPU:0"):
            return [np.asarray(value) for value in outputs()]


def _scope(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_./-]", "_", name).strip("/_-") or "node"


def _operators(nodes: Iterable[OnnxNode]) -> dict[str, list[str]]:
    """Returns {operator: names of its nodes}, with the nodes in the branches of an If instead of it."""
    names: dict[str, list[str]] = {}
    pending = list(nodes)
    while pending:
        node = pending.pop(0)
        if node.operator == "If":
            pending += [inner for branch in node.attributes.values() for inner in branch.nodes]
        else:
            names.setdefault(node.operator, []).append(node.name)
    return names


def _fused(graph: Graph, fusions: Sequence[Fused], names: Iterable[str]) -> Graph:
    """Replaces operations of TensorFlow, and leaves out those on which no output with these names depends any more."""
    moved: dict[Source, Source] = {}
    nodes = [*graph.nodes]
    for fused in fusions:
        inputs = tuple((x.op.name, x.value_index) for x in fused.inputs)
        nodes.append(Node(fused.name, fused.operation, inputs, fused.attributes))
        moved |= {(y.op.name, y.value_index): (fused.name, i) for i, y in enumerate(fused.outputs)}
    return graphs.rewired(nodes, {name: graph.outputs[name] for name in names}, moved)


def _with_updates(graph: Graph, weights: Iterable[str]) -> Graph:
    """Returns a graph that assigns the outputs `NAME/update` to the variables NAME."""
    nodes, outputs = list(graph.nodes), dict(graph.outputs)
    for name in weights:
        if update := outputs.pop(f"{name}/update", None):
            nodes.append(Node(f"{name}/handle", VARIABLE, value=name))
            nodes.append(Node(f"{name}/assign", "AssignVariableOp", ((f"{name}/handle", 0), update)))
    return Graph(tuple(nodes), outputs)
