"""A function over named tensors as a graph, checked against a mesh and a layout before any device is used."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging import upstream
from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.layout import check_names, parse_layout, parse_shape
from mtf_imaging.ops.reshard import ProgramMesh
from mtf_imaging.program import lowering
from mtf_imaging.program.variables import Masters


class Input:
    """Name, shape and dtype of an input, as the user gave them.

    Args:
      name: of the input.
      spec: its shape, "batch:1,x:12,channels:3" (float32), or a pair (shape, dtype).
    """

    def __init__(self, name, spec):
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
      masters: the `Masters` of its variables.
    """

    graph: mtf.Graph
    mesh: mtf.Mesh
    outputs: object
    masters: Masters

    @property
    def needed(self):
        """The operations of the graph that outputs or assignments come of, in its order."""
        return upstream.needed(self.graph, tf.nest.flatten(self.outputs))


def trace(fn: Callable, inputs: dict, tensors: dict, mesh_shape: str, layout: str, masters: Masters) -> Traced:
    """Calls a function with an `mtf.Tensor` for each input.

    Args:
      fn: the function.
      inputs: {name: `Input`}.
      tensors: {name: tf.Tensor}.
      mesh_shape: the mesh, which a network may ask for the number of slices.
      layout: the layout, likewise.
      masters: where variables come from; none is made yet.

    Raises:
      ShapeError: it returned something that is no mtf.Tensor.
    """
    graph = mtf.Graph()
    mesh = ProgramMesh(graph, parse_shape(mesh_shape, what="mesh_shape"), parse_layout(layout))
    named = {key: mtf.import_tf_tensor(mesh, tensors[key], spec.shape, name=key) for key, spec in inputs.items()}
    with masters.scope():
        outputs = fn(**named)
    for value in tf.nest.flatten(outputs):
        if not isinstance(value, mtf.Tensor):
            raise ShapeError(f"fn must return mtf.Tensors only, not {value!r} ({type(value).__name__})")
    return Traced(graph, mesh, outputs, masters)


def trace_only(
    fn: Callable, inputs: dict, mesh_shape: str = "", layout: str = "", devices: Sequence[str] = ("CPU:0",)
) -> Traced:
    """Traces a function to look at what it made; takes no memory to speak of, whatever the sizes.

    Args:
      fn: the function.
      inputs: {name: shape, or (shape, dtype)}, as a `Program` takes them.
      mesh_shape: the mesh.
      layout: the layout; neither is checked.
      devices: names of devices that variables would be spread over; there need not be any of them.
    """
    masters = Masters(0, devices)
    inputs = {name: Input(name, spec) for name, spec in inputs.items()}
    traced = []

    def build(tensors):
        traced.append(trace(fn, inputs, tensors, mesh_shape, layout, masters))

    tf.function(build, autograph=False).get_concrete_function({name: i.spec for name, i in inputs.items()})
    return traced[0]


def check(traced: Traced, mesh_shape: str, layout: str) -> tuple[str, ...]:
    """Checks that a graph can be laid out.

    Returns:
      Mesh dimensions that no rule of the layout uses: the same work is done along them on every processor.

    Raises:
      LayoutError: all faults of the layout.
    """
    dims = {d.name for _, tensor in lowering.tensors_of(traced.graph) for d in tensor.shape.dims}
    repeated = check_names(layout, mesh_shape, dims)
    lowering.check(traced.graph, parse_shape(mesh_shape, what="mesh_shape"), parse_layout(layout))
    return repeated
