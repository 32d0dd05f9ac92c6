"""The graph of a program as plain TensorFlow operations, without devices, for use with any weights."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from mtf_imaging.engine.program.program import Program
from mtf_imaging.inference.network import of_each

STEP = "step"
# Attributes of operations that refer to devices, to other operations, or to gradients.
_REFERENCES = ("_class", "_gradient_op_type")


class PlainGraph:
    """The graph of a program on one device, as a function of its input and its variables.

    Args:
      program: a program with a batch size of 1, on one device of this process.

    Attributes:
      image: the shape and dtype of the input, `[1, ..., channels]`; a dict by name if there are several inputs.
      results: the shapes and dtypes of the results, in the structure of the program.
      shapes: the `mtf.Shape`s of the results, in the same structure.
    """

    def __init__(self, program: Program) -> None:
        function = program.function
        names = {id(variable.handle): name for name, variable in program.variables.items()}
        names[id(program.step.handle)] = STEP
        # {name of a tensor: the variable or the constant that it represents}
        self._variables: dict[str, str] = {}
        self._constants: dict[str, Any] = {}
        for source, inner in function.graph.captures:
            if id(source) in names:
                self._variables[inner.name] = names[id(source)]
            else:
                self._constants[inner.name] = source.numpy()
        inputs = [tensor for tensor in function.inputs if tensor.name not in self._captured]
        names_in_order = sorted(program.input_specs)  # as TensorFlow flattens a dict
        several = {name: inputs[names_in_order.index(name)] for name in program.input_specs}
        images: Any = several if len(several) > 1 else inputs[0]
        self._image = of_each(lambda tensor: tensor.name, images)
        self.image = of_each(lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), images)
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in function.outputs]
        self.results = tf.nest.pack_sequence_as(function.structured_outputs, specs)
        self.shapes = program.output_shapes
        self._outputs = [tensor.name for tensor in function.outputs]
        self._graph_def = _without_devices(function.graph.as_graph_def(), {tensor.name for tensor in function.inputs})

    @property
    def _captured(self) -> set[str]:
        return {*self._variables, *self._constants}

    def __call__(self, image: Any, variables: Mapping[str, tf.Variable]) -> Any:
        """Adds the operations to the function that is being traced.

        Args:
          image: `[1, ..., channels]`, in the shape and dtype of the program's input, or a dict of inputs by name.
          variables: the variables of the program, and its step under the name `STEP`.

        Returns:
          The results in the structure of the program, with the batch dimension.
        """
        graph = tf.compat.v1.get_default_graph()
        handles = {inner: graph.capture(variables[name].handle) for inner, name in self._variables.items()}
        return self._add(handles, image)

    def with_constants(self, image: Any, variables: Mapping[str, tf.Variable]) -> Any:
        """Adds the operations like `__call__`, but with constants instead of variables."""
        with tf.init_scope():
            values = {inner: variables[name].numpy() for inner, name in self._variables.items()}
        return self._add({inner: tf.constant(value) for inner, value in values.items()}, image)

    def _add(self, inputs: dict[str, tf.Tensor], image: Any) -> Any:
        """Adds the operations to the function being traced; `inputs` contains the handles or values of variables."""
        is_constant = all(value.dtype != tf.resource for value in inputs.values())
        graph_def = _with_constants(self._graph_def) if is_constant else self._graph_def
        inputs |= {inner: tf.constant(value) for inner, value in self._constants.items()}
        of_each(lambda name, tensor: inputs.update({name: tensor}), self._image, image)
        results = tf.graph_util.import_graph_def(
            graph_def, input_map=inputs, return_elements=self._outputs, name="network"
        )
        return tf.nest.pack_sequence_as(self.results, results)


def _without_devices(graph: tf.compat.v1.GraphDef, inputs: set[str]) -> tf.compat.v1.GraphDef:
    """Returns a graph without devices and without the placeholders of its inputs."""
    placeholders = {name.partition(":")[0] for name in inputs}
    kept = [node for node in graph.node if node.name not in placeholders]
    del graph.node[:]
    graph.node.extend(kept)
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        for node in nodes:
            node.device = ""
            for name in _REFERENCES:
                if name in node.attr:
                    del node.attr[name]
    return graph


def _with_constants(graph: tf.compat.v1.GraphDef) -> tf.compat.v1.GraphDef:
    """Returns a graph whose variables are replaced by their values."""
    result = tf.compat.v1.GraphDef()
    result.CopyFrom(graph)
    for node in result.node:
        if node.op == "ReadVariableOp":
            dtype = node.attr["dtype"].type
            node.op = "Identity"
            node.attr.clear()
            node.attr["T"].type = dtype
    return result
