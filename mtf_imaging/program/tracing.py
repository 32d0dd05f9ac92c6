"""A function over named tensors as a graph, checked against a mesh and a layout before any device is used."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from mtf_imaging import upstream
from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.layout import ONE_PROCESSOR, Layout, parse_shape
from mtf_imaging.ops.reshard import ProgramMesh
from mtf_imaging.program.checks import check_layout, tensors_of
from mtf_imaging.program.variables import Variables

# The shape of an input, "batch:1,x:12,channels:3" (float32), or a pair (shape, dtype).
Spec = str | tuple[str, tf.DType]


class Input:
    """Name, shape and dtype of an input, as the user gave them.

    Args:
      name: name of the input.
      spec: its shape, "batch:1,x:12,channels:3" (float32), or a pair (shape, dtype).
    """

    def __init__(self, name: str, spec: Spec) -> None:
        string, dtype = spec if isinstance(spec, (tuple, list)) else (spec, tf.float32)
        self.name = name
        self.shape = mtf.Shape([mtf.Dimension(d, n) for d, n in parse_shape(string, what=f"shape of input '{name}'")])
        self.dtype = tf.as_dtype(dtype)
        self.spec = tf.TensorSpec(self.shape.to_integer_list, self.dtype, name=name)


class Traced(NamedTuple):
    """What a function made of its inputs.

    Attributes:
      graph: an `mtf.Graph`.
      mesh: its `mtf.Mesh`.
      outputs: what the function returned: an `mtf.Tensor`, or a tuple or dict of them.
      variables: the `Variables` that it asked for.
    """

    graph: mtf.Graph
    mesh: mtf.Mesh
    outputs: Any
    variables: Variables

    @property
    def needed(self) -> list[mtf.Operation]:
        """The operations that outputs or assignments depend on, in the order of the graph."""
        return upstream.needed(self.graph, tf.nest.flatten(self.outputs))


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
      layout: the layout, which a network may ask for the number of slices.
      variables: where variables come from; none is created yet.

    Raises:
      ShapeError: it returned something that is no mtf.Tensor.
    """
    graph = mtf.Graph()
    mesh = ProgramMesh(graph, layout.mesh_shape, layout.rules)
    named = {key: mtf.import_tf_tensor(mesh, tensors[key], spec.shape, name=key) for key, spec in inputs.items()}
    with variables.scope():
        outputs = fn(**named)
    for value in tf.nest.flatten(outputs):
        if not isinstance(value, mtf.Tensor):
            raise ShapeError(f"fn must return mtf.Tensors only, not {value!r} ({type(value).__name__})")
    return Traced(graph, mesh, outputs, variables)


def trace_only(
    fn: Callable[..., Any],
    inputs: Mapping[str, Spec],
    layout: Layout = ONE_PROCESSOR,
    devices: Sequence[str] = ("CPU:0",),
) -> Traced:
    """Traces a function without allocating its tensors, so that its graph can be examined whatever the sizes.

    Args:
      fn: the function.
      inputs: {name: shape, or (shape, dtype)}, as a `Program` takes them.
      layout: the layout; it is not checked.
      devices: names of devices that variables would be spread over; there need not be any of them.
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
      Mesh dimensions that no rule of the layout uses: the same work is done along them on every processor.

    Raises:
      LayoutError: all faults of the layout.
    """
    dims = {d.name for _, tensor in tensors_of(traced.graph) for d in tensor.shape.dims}
    repeated = layout.check_names(dims)
    check_layout(traced.graph, layout)
    return repeated
