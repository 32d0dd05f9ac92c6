"""Compares networks of other libraries with their conversions: outputs and the gradients of inputs and weights."""

import zlib

import keras
import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.eager import EagerProgram

LAYOUTS = {
    "whole": {},
    "split": {"mesh_shape": "rows:2,cols:2", "layout": "x:rows,y:cols"},
    "uneven": {"mesh_shape": "rows:3,cols:2", "layout": "x:rows,channels:cols"},
    "in turns": {"mesh_shape": "slabs:3", "layout": "x:slabs", "sequential": "slabs"},
}
TOLERANCES = {"float32": 1e-5, "float64": 1e-9}


def use_dtype(dtype):
    """Makes Keras build models in a dtype, with the names that a new process gives layers."""
    keras.utils.clear_session()
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)  # which Keras otherwise remembers from the model before


def arrays(specs, seed=""):
    """Returns reproducible values for the inputs of a network."""
    rng = np.random.default_rng(zlib.crc32(f"{seed}{sorted(specs)}".encode()))
    values = {}
    for name, (shape, dtype) in specs.items():
        sizes = [int(dim.split(":")[1]) for dim in shape.split(",")]
        values[name] = rng.standard_normal(sizes) if dtype.is_floating else rng.integers(0, 3, sizes)
        values[name] = values[name].astype(dtype.as_numpy_dtype)
    return values


def randomize(variables, seed=0):
    """Gives weights values of ordinary size, so that deep networks do not saturate; moving variances stay positive."""
    rng = np.random.default_rng(seed)
    for variable in variables:
        if variable.dtype in ("float32", "float64", tf.float32, tf.float64):
            inputs = np.prod(variable.shape[:-1]) if len(variable.shape) > 1 else 4
            value = min(0.5, np.sqrt(2 / inputs)) * rng.standard_normal(variable.shape)
            variable.assign(np.abs(value) + 0.5 if "variance" in variable.name else value)


def cotangents(outputs):
    return [
        np.cos(np.arange(np.prod(y.shape, dtype=int))).reshape(y.shape).astype(y.dtype.as_numpy_dtype) for y in outputs
    ]


def expected(function, tensors, variables):
    """Returns the outputs of a function of TensorFlow, and the gradients by inputs and variables (or None)."""
    inputs = [tf.constant(x) for x in tensors.values()]
    floats = [x for x in inputs if x.dtype.is_floating]

    @tf.function(autograph=False)
    def run():
        with tf.GradientTape() as tape:
            tape.watch(floats)
            outputs = tf.nest.flatten(function(*inputs))
            total = tf.add_n(
                [tf.reduce_sum(y * w) for y, w in zip(outputs, cotangents(outputs)) if y.dtype.is_floating]
            )
        sources = [*floats, *[getattr(v, "value", v) if not isinstance(v, tf.Variable) else v for v in variables]]
        gradients = tape.gradient(total, sources)
        found = [g is not None for g in gradients]
        return outputs, [tf.zeros([]) if g is None else tf.convert_to_tensor(g) for g in gradients], found

    outputs, gradients, found = run()
    return outputs, [g.numpy() if is_found else None for g, is_found in zip(gradients, found)]


def computed(network, specs, tensors, training=False, program_type=None, **layout):
    """Returns the outputs of a network, the gradients by its inputs, the gradients by name, and the program."""
    names = {}

    def function(**inputs):
        outputs = network(training=training, **inputs)
        flat = list(outputs.values()) if isinstance(outputs, dict) else [outputs]
        floats = [y for y in flat if y.dtype.is_floating]
        shapes = [mi.mtf.constant(y.mesh, c, y.shape, y.dtype) for y, c in zip(floats, _cotangents(floats))]
        total = sum(mi.mtf.reduce_sum(y * w) for y, w in zip(floats, shapes))
        graph = total.mesh.graph
        variables = [v.outputs[0] for v in graph.trainable_variables]
        sources = [*[x for x in inputs.values() if x.dtype.is_floating], *variables]
        gradients = mi.mtf.gradients([total], sources)
        found = [i for i, g in enumerate(gradients) if g is not None]
        names["found"], names["variables"] = found, [v.name for v in graph.trainable_variables]
        return {"outputs": tuple(flat), "gradients": tuple(gradients[i] for i in found)}

    kind = program_type or (mi.Program if training or "sequential" in layout else EagerProgram)
    program = kind(function, specs, **layout)
    results = program(**tensors)
    count = sum(dtype.is_floating for _, dtype in specs.values())
    gradients = [None] * (count + len(names["variables"]))
    for i, gradient in zip(names["found"], results["gradients"], strict=True):
        gradients[i] = gradient.numpy()
    return results["outputs"], gradients[:count], dict(zip(names["variables"], gradients[count:])), program


def _cotangents(tensors):
    return [np.cos(np.arange(y.shape.size)).reshape(y.shape.to_integer_list) for y in tensors]


def layout_of(name, specs):
    """Returns the arguments of `Program` for a key of `LAYOUTS`, without rules for dimensions that no input has."""
    options = dict(LAYOUTS[name])
    known = {dim.split(":")[0] for shape, _ in specs.values() for dim in shape.split(",")}
    rules = [rule for rule in options.get("layout", "").split(",") if rule.split(":")[0] in known]
    used = {rule.split(":")[1] for rule in rules}
    mesh = [dim for dim in options.get("mesh_shape", "").split(",") if dim.split(":")[0] in used]
    options |= {"layout": ",".join(rules), "mesh_shape": ",".join(mesh)}
    return options if mesh else {}


def difference(value, wanted, largest=0):
    value, wanted = np.asarray(value, np.float64), np.asarray(wanted, np.float64)
    return np.abs(value - wanted).max(initial=0) / max(np.abs(wanted).max(initial=0), largest, 1e-3)


def check(network, function, variables, specs, layout="whole", training=False, tolerance=None, cancels=False):
    """Asserts that a network equals a function of TensorFlow.

    Args:
      network: the converted network.
      function: the original, a function of tensors in the order of `specs`.
      variables: {name of a trainable variable in the network: the variable of the original}.
      specs: the inputs of the program.
      layout: a key of `LAYOUTS`.
      training: whether to compute as in training.
      tolerance: largest difference, relative to the largest value.
      cancels: whether gradients are compared relative to the largest of all, because some are sums that cancel, such as
        those of biases before norms.

    Returns:
      The program.
    """
    tensors = arrays(specs)
    before = {name: np.array(v.numpy()) for name, v in variables.items()}
    outputs, gradients, by_name, program = computed(network, specs, tensors, training, **layout_of(layout, specs))
    wanted, slopes = expected(function, tensors, variables.values())
    dtype = next(dtype for _, dtype in specs.values() if dtype.is_floating)
    limit = tolerance or TOLERANCES[dtype.name]
    assert [list(y.shape) for y in outputs] == [list(y.shape) for y in wanted]
    worst = {f"output {i}": difference(y, w) for i, (y, w) in enumerate(zip(outputs, wanted, strict=True))}
    largest = max([np.abs(slope).max() for slope in slopes if slope is not None]) if cancels else 0
    for i, gradient in enumerate(gradients):
        worst[f"gradient of input {i}"] = difference(
            0 if gradient is None else gradient, 0 if slopes[i] is None else slopes[i], largest
        )
    for name, slope in zip(variables, slopes[len(gradients) :], strict=True):
        found = by_name.get(name)
        assert (found is None) == (slope is None), f"{name}: {found is not None}, but {slope is not None} in TensorFlow"
        if slope is not None:
            worst[name] = difference(np.reshape(found, before[name].shape), slope, largest)
    wrong = {name: value for name, value in worst.items() if not value <= limit}
    assert not wrong, wrong
    return program


def check_model(model, layout="whole", training=False, tolerance=None, cancels=False, **sizes):
    """Asserts that a Keras model equals its conversion; in training, also the variables that it has updated."""
    network = mi.networks.load(model)
    names = dict(zip([getattr(v, "path", v.name).partition(":")[0] for v in model.variables], model.variables))
    trainable = {id(v) for v in model.trainable_variables}
    variables = {name: v for name, v in names.items() if id(v) in trainable}

    def function(*tensors):
        return model(list(tensors) if len(tensors) > 1 else tensors[0], training=training)

    program = check(network, function, variables, network.inputs(**sizes), layout, training, tolerance, cancels)
    for name, variable in names.items() if training else ():
        if name in network.weights:
            own = np.reshape(program.variables[name], variable.shape)
            limit = 1e-9 if own.dtype == np.float64 else 1e-5
            np.testing.assert_allclose(own, variable.numpy(), limit, limit, err_msg=name)
    return program
