"""Traces a function over named tensors to a graph and checks the graph against a layout."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from mtf_imaging.engine import upstream
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout
from mtf_imaging.engine.ops.reshard import ProgramMesh
from mtf_imaging.engine.program.checks import check_layout, graph_tensors
from mtf_imaging.engine.program.inputs import Input, Spec
from mtf_imaging.engine.program.variables import Variables
from mtf_imaging.errors import ShapeError


class Traced(NamedTuple):
    """The graph of a function.

    Attributes:
      graph: the `mtf.Graph`.
      mesh: the `mtf.Mesh` of the graph.
      outputs: the return value of the function: an `mtf.Tensor`, or a tuple or dict of them.
      variables: the `Variables` that the function requested.
      label_values: {input: the values that it may have}, for the inputs for which the function declared them.
    """

    graph: mtf.Graph
    mesh: mtf.Mesh
    outputs: object
    variables: Variables
    label_values: Mapping[str, frozenset[int]]

    @property
    def needed(self) -> list[mtf.Operation]:
        """The operations on which outputs or assignments depend, in the order of the graph."""
        return upstream.needed(self.graph, tf.nest.flatten(self.outputs))


class _Input(mtf.Operation):
    """An input of a program. If there are several processes, each passes its part.

    Args:
      mesh: the `mtf.Mesh`.
      tensor: the whole tensor, or the box of this process.
      shape: shape of the whole tensor.
      name: name of the input.
    """

    kind = "input"

    def __init__(self, mesh: mtf.Mesh, tensor: tf.Tensor, shape: mtf.Shape, name: str) -> None:
        super().__init__([], mesh=mesh, name=name)
        self._tensor = tensor
        self._outputs = [mtf.Tensor(self, shape, tensor.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor]:
        del grad_ys
        return []  # one per input of the operation, which has no inputs

    def lower(self, lowering: mtf.Lowering) -> None:
        (x,) = self.outputs
        lowering.set_tensor_lowering(x, lowering.mesh_impl(self).import_tf_tensor(x, self._tensor))


def trace(
    fn: Callable[..., Any],
    inputs: Mapping[str, Input],
    tensors: Mapping[str, tf.Tensor],
    layout: Layout,
    variables: Variables,
) -> Traced:
    """Calls a function with an `mtf.Tensor` for each input.

    Args:
      fn: the function.
      inputs: {name: `Input`}.
      tensors: {name: tf.Tensor}.
      layout: the layout, from which a network can read the number of slices.
      variables: the `Variables` of the function. Tracing creates no `tf.Variable`.

    Raises:
      ShapeError: the function returned a value that is not an `mtf.Tensor`.
    """
    graph = mtf.Graph()
    mesh = ProgramMesh(graph, layout.mesh_shape, layout.rules)
    named = {key: _Input(mesh, tensors[key], spec.shape, key).outputs[0] for key, spec in inputs.items()}
    with variables.scope():
        outputs = fn(**named)
    for value in tf.nest.flatten(outputs):
        if not isinstance(value, mtf.Tensor):
            raise ShapeError(f"fn must return only mtf.Tensors, not {value!r} ({type(value).__name__})")
    label_values = {key: mesh.label_values[x] for key, x in named.items() if x in mesh.label_values}
    return Traced(graph, mesh, outputs, variables, label_values)


def trace_only(
    fn: Callable[..., Any],
    inputs: Mapping[str, Spec],
    layout: Layout = ONE_PROCESSOR,
    devices: Sequence[str] = ("CPU:0",),
) -> Traced:
    """Traces a function without allocating tensors, so that graphs of any size can be analyzed.

    Args:
      fn: the function.
      inputs: {name: shape, or (shape, dtype)}, as for `Program`.
      layout: the layout; it is not checked.
      devices: names of the devices over which variables would be distributed. The devices does not have to exist.
    """
    variables = Variables(0, devices)
    named = {name: Input(name, spec) for name, spec in inputs.items()}
    traced = []

    def build(tensors: dict[str, tf.Tensor]) -> None:
        traced.append(trace(fn, named, tensors, layout, variables))

    tf.function(build, autograph=False).get_concrete_function({name: i.spec for name, i in named.items()})
    return traced[0]


def check(traced: Traced, layout: Layout) -> tuple[str, ...]:
    """Checks that a graph can be laid out.

    Args:
      traced: the graph.
      layout: the layout.

    Returns:
      The mesh dimensions that no rule of the layout uses. All processors along such a dimension do the same work.

    Raises:
      LayoutError: the layout has faults. The error lists all of them.
    """
    dims = {d.name for _, tensor in graph_tensors(traced.graph) for d in tensor.shape.dims}
    repeated = layout.check_names(dims)
    check_layout(traced.graph, layout)
    return repeated
