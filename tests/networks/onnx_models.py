"""ONNX models for tests, and the comparison of their conversions with ONNX Runtime and TensorFlow."""

import numpy as np
import onnx
import onnxruntime
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper

import mtf_imaging as mi
from mtf_imaging.networks.onnx import onnx_network
from tests.networks import comparing

IR_VERSION = 10
_DTYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
}


def weight(*shape, seed=0, low=-1.0, high=1.0):
    """Returns reproducible values."""
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(low, high, shape).astype(np.float32)


class Builder:
    """Builds a graph node by node; arrays become initializers.

    Args:
      opset: the version of the operators.
      dtype: dtype of the initializers that are not ints.
    """

    def __init__(self, opset=17, dtype="float32"):
        self.opset, self.dtype = opset, dtype
        self.nodes, self.initializers, self.count = [], [], 0

    def constant(self, value, name):
        value = np.asarray(value)
        value = value.astype(self.dtype) if value.dtype == np.float32 else value
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def __call__(self, operator, *inputs, outputs=1, name=None, **attributes):
        self.count += 1
        name = name or f"{operator}_{self.count}"
        given = [x if isinstance(x, str) else self.constant(x, f"{name}.{i}") for i, x in enumerate(inputs)]
        made = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, given, made, name=name, **attributes))
        return made[0] if outputs == 1 else made

    def model(self, inputs, outputs):
        """Returns the model.

        Args:
          inputs: {name: (shape, dtype)}.
          outputs: names of the outputs.
        """
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info(name, _DTYPES[dtype], shape) for name, (shape, dtype) in inputs.items()],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=IR_VERSION)


def saved(model, folder):
    """Returns the path of a file with a model, whose outputs get types by shape inference."""
    path = folder / "net.onnx"
    inferred = onnx.shape_inference.infer_shapes(model)
    onnx.save(inferred, path)
    return path


def _first(array, rank):
    return np.moveaxis(array, -1, 1) if array.ndim == rank > 2 else array


def _last(array, rank):
    return np.moveaxis(array, 1, -1) if array.ndim == rank > 2 else array


def runtime(path, tensors):
    """Returns the outputs of ONNX Runtime for inputs with channels last, with channels last."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    rank = max(x.ndim for x in tensors.values())
    named = {given.name: _first(x, rank) for given, x in zip(session.get_inputs(), tensors.values(), strict=True)}
    return [_last(y, rank) for y in session.run(None, named)]


def check(path, layout="whole", sizes=None, tolerance=1e-5, gradients=True, against_runtime=True, jit=False):
    """Asserts that a file's outputs equal ONNX Runtime's, and its gradients those of its operations in TensorFlow.

    Args:
      path: the file.
      layout: a key of `comparing.LAYOUTS`.
      sizes: arguments of `network.inputs`.
      tolerance: largest difference, relative to the largest value.
      gradients: whether there are gradients.
      against_runtime: whether to compare with ONNX Runtime instead of TensorFlow.
      jit: whether to compile the operations of TensorFlow, which has no gradients of convolutions with groups on CPUs.

    Returns:
      The program.
    """
    network, source = mi.networks.load(path), onnx_network(path)
    specs = network.inputs(**(sizes or {}))
    tensors = comparing.arrays(specs)
    options = comparing.layout_of(layout, specs)
    if gradients:
        outputs, by_input, by_name, program = comparing.computed(network, specs, tensors, **options)
    else:
        program = mi.Program(network, specs, **options)
        results = program(**tensors)
        outputs = [*results.values()] if isinstance(results, dict) else [results]
    wanted = runtime(path, tensors) if against_runtime else None
    worst = {}
    if gradients:
        variables = {name: tf.Variable(w.read()) for name, w in source.weights.items() if w.trainable}
        fixed = {name: tf.constant(w.read()) for name, w in source.weights.items() if not w.trainable}

        @tf.function(autograph=False, jit_compile=jit)
        def function(*images):
            return list(source.compute(dict(zip(specs, images)), {**fixed, **variables}).values())

        reference, slopes = comparing.expected(function, tensors, variables.values())
        wanted = wanted or reference
        found = [*by_input, *(by_name.get(name) for name in variables)]
        names = [f"gradient of input {i}" for i in range(len(by_input))] + list(variables)
        for name, ours, theirs in zip(names, found, slopes, strict=True):
            if theirs is not None and ours is not None:
                ours = np.reshape(ours, theirs.shape)
            worst[name] = comparing.difference(0 if ours is None else ours, 0 if theirs is None else theirs)
    assert [list(y.shape) for y in outputs] == [list(y.shape) for y in wanted]
    worst |= {f"output {i}": comparing.difference(y, w) for i, (y, w) in enumerate(zip(outputs, wanted, strict=True))}
    wrong = {name: value for name, value in worst.items() if not value <= tolerance}
    assert not wrong, wrong
    return program
