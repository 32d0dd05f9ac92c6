"""Programs whose operations run as soon as they are lowered, without a graph of TensorFlow.

A case of a table builds a program for one call, and TensorFlow needs several times as long to build and start a graph
as to run the operations of a small case. The operations, the slices and the exchanges are those of a `Program`. What
only exists in a graph, such as graph optimizations and the order of control edges, is tested by the cases of a table
that run in a graph.

TensorFlow differentiates functions of slices only in a graph, so a program with such gradients always runs in one.
"""

import tensorflow as tf
import tensorflow.compat.v1 as tf1

import mtf_imaging as mi
from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.meshes import make_mesh_impl
from mtf_imaging.engine.meshes.random.state import RandomState
from mtf_imaging.engine.program import lowering, tracing
from mtf_imaging.engine.program.inputs import Input
from mtf_imaging.engine.program.variables import Variables


class EagerProgram:
    """The part of `Program` that tables of operations use. It does not run assignments.

    Args:
      fn, inputs, mesh_shape, layout, mesh_impl, devices, seed: as for `Program`.

    Attributes:
      variables: {name: value} of the variables that do not have their initial values in the next calls.
      mesh_impl: the mesh implementation of the last call.
    """

    def __init__(self, fn, inputs, mesh_shape="", layout="", mesh_impl="auto", devices=None, seed=0):
        self._arguments = fn, inputs, mesh_shape, layout, mesh_impl, devices, seed
        self.layout = Layout.of(layout, mesh_shape)
        self.variables = {}

    def __call__(self, /, **tensors):
        """Lowers and runs the operations on whole tensors; returns whole tensors."""
        fn, specs, _, _, mesh_impl, devices, seed = self._arguments
        inputs = {key: Input(key, spec) for key, spec in specs.items()}
        self.mesh_impl = mesh = make_mesh_impl(mesh_impl, self.layout, devices)
        masters = Variables(seed, mesh.devices)
        with tf.device(mesh.host):
            values = {key: spec.convert(tensors[key]) for key, spec in inputs.items()}
            try:
                traced = tracing.trace(fn, inputs, values, self.layout, masters)
            finally:
                # Without a graph, the collection outlives the call.
                tf1.get_default_graph().clear_collection(tf1.GraphKeys.GLOBAL_STEP)
            if any(isinstance(op, mi.mtf.GenericGradOperation) for op in traced.needed):
                return self._in_a_graph(tensors)
            tracing.check(traced, self.layout)
            masters.create()
            for name, value in self.variables.items():
                masters.variables[name].assign(value)
            mesh.transport.begin(None)
            mesh.random_state = RandomState(seed, masters.read_step())
            lowered = lowering.Lowering(traced.graph, traced.needed, {traced.mesh: mesh}, mesh.random_state)
            return tf.nest.map_structure(lowered.export_to_tf_tensor, traced.outputs)

    def _in_a_graph(self, tensors):
        program = mi.Program(*self._arguments)
        self.mesh_impl = program.mesh_impl
        for name, value in self.variables.items():
            program.variables[name].assign(value)
        return program(**tensors)
