"""Random chains of operations equal TensorFlow on whole tensors: values, gradients and second derivatives.

A chain mixes functions of `mtf` and operations of `mi.ops`, on 1 to 3 spatial dimensions of any size.
"""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mtf_imaging as mi
from tests.engine.harness import difference
from tests.engine.ops import resizing
from tests.engine.upstream.functions import FUNCTIONS, axis_of

mtf = mi.mtf
AXES = "xyz"
# Largest differences, relative to the largest value, after several operations that amplify rounding.
TOLERANCES = {"float64": 1e-8, "float32": 2e-3, "bfloat16": 0.2, "float16": 0.05}
# Steps that are not continuous or amplify rounding, so they are left out in other dtypes than float64.
COARSE = {
    *("argmax", "cast", "cwise", "equal", "exp", "floordiv", "greater", "greater_equal", "less", "less_equal", "mod"),
    *(
        "logical_and",
        "logical_not",
        "logical_or",
        "not_equal",
        "one_hot",
        "reduce_all",
        "reduce_any",
        "sign",
        "to_float",
    ),
    *("random_normal", "sample_with_temperature", "to_bfloat16", "to_int32", "where"),
}


class Step:
    """One operation of a chain: a name, a function of an mtf tensor, and of a TensorFlow tensor and its dimensions."""

    def __init__(self, name, fn, reference, accepts):
        self.name, self.fn, self.reference, self.accepts = name, fn, reference, accepts

    def __repr__(self):
        return self.name


def _is_image(dims, least=1):
    """Returns whether a shape is `[batch, spatial..., channels]` as in the beginning."""
    names = [name for name, _ in dims]
    spatial = names[1:-1]
    return (
        names[:1] == ["batch"]
        and names[-1:] == ["channels"]
        and spatial
        and "".join(spatial) == AXES[: len(spatial)]
        and min(size for _, size in dims[1:-1]) >= least
    )


def _kernel(v, out=2):
    extent = [3, 2, 1][: v.shape.ndims - 2]
    values = np.sin(np.arange(np.prod(extent) * v.shape[-1] * out) + 1)
    return tf.constant(values.reshape([*extent, v.shape[-1], out]), v.dtype)


def _conv(strides):
    def fn(t):
        kernel = _kernel(tf.zeros([dim.size for dim in t.shape.dims], t.dtype))
        names = ["fx", "fy", "fz"][: t.shape.ndims - 2]
        dims = [mtf.Dimension(*dim) for dim in zip([*names, "channels", "out"], kernel.shape)]
        y = getattr(mi.ops, f"conv{len(names)}d")(t, mtf.import_tf_tensor(t.mesh, kernel, mtf.Shape(dims)), strides)
        return mtf.rename_dimension(y, "out", "channels")

    return Step(
        f"conv, stride {strides}", fn, lambda v, dims: tf.nn.convolution(v, _kernel(v), strides, "SAME"), _is_image
    )


def _pool(kind):
    def reference(v, dims):
        del dims
        pool = getattr(tf.nn, f"{kind}_pool2d")
        for axis in range(1, v.shape.ndims - 1):  # one dimension after the other: TensorFlow has no float64 3D pools
            order = [i for i in range(v.shape.ndims) if i != axis]
            moved = tf.transpose(v, [axis, *order])
            flat = tf.reshape(moved, [1, v.shape[axis], -1, 1])
            flat = pool(flat, [2, 1], [2, 1], "VALID")
            moved = tf.reshape(flat, [flat.shape[1], *moved.shape[1:]])
            v = tf.transpose(moved, np.argsort([axis, *order]))
        return v

    return Step(
        f"{kind} pool",
        lambda t: getattr(mi.ops, f"{kind}_pool{t.shape.ndims - 2}d")(t, 2, 2),
        reference,
        lambda dims: _is_image(dims, 2),
    )


def _instance_norm(t):
    return mi.ops.instance_norm(t, 1e-1, f"norm{len(t.graph.operations)}")


def _tf_instance_norm(v, dims):
    axes = list(range(1, len(dims) - 1))
    centered = v - tf.reduce_mean(v, axes, keepdims=True)
    return centered * tf.math.rsqrt(tf.reduce_mean(tf.square(centered), axes, keepdims=True) + 1e-1)


def _resized(t):
    sizes = [2 * dim.size - 1 for dim in t.shape.dims[1:-1]]
    return getattr(mi.ops, f"resize{len(sizes)}d")(t, sizes, "linear")


OPERATIONS = [
    _conv(1),
    _conv(2),
    _pool("max"),
    _pool("avg"),
    Step("instance norm", _instance_norm, _tf_instance_norm, lambda dims: _is_image(dims, 2)),
    Step(
        "resize",
        _resized,
        lambda v, dims: resizing.resize(v, tuple(2 * n - 1 for n in v.shape[1:-1]), "linear", False),
        _is_image,
    ),
    Step("leaky relu", lambda t: mi.ops.leaky_relu(t, 0.25), lambda v, dims: tf.nn.leaky_relu(v, 0.25), bool),
    Step(
        "gathered",
        lambda t: mi.ops.gather_slices(t, [dim.name for dim in t.shape.dims[1:2]]),
        lambda v, dims: tf.identity(v),
        _is_image,
    ),
]
STEPS = [
    *OPERATIONS,
    *(
        Step(f.name, f.fn, lambda v, dims, f=f: f.reference(v, axis_of(dims)), f.accepts)
        for f in FUNCTIONS
        if not f.name.startswith("assign")
    ),
]


def _dims(shape):
    return [(dim.name, dim.size) for dim in shape.dims]


@st.composite
def chains(draw):
    """Draws the sizes of an image, the steps, a mesh and a layout."""
    sizes = [
        draw(st.integers(1, 2)),
        *draw(st.lists(st.integers(3, 7), min_size=1, max_size=3)),
        draw(st.integers(1, 3)),
    ]
    names = ["batch", *AXES[: len(sizes) - 2], "channels"]
    steps = draw(st.lists(st.sampled_from(STEPS), min_size=2, max_size=6))
    split = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    parts = [draw(st.integers(2, 4)) for _ in split]
    mesh_shape = ",".join(f"m{i}:{n}" for i, n in enumerate(parts))
    layout = ",".join(f"{name}:m{i}" for i, name in enumerate(split))
    return list(zip(names, sizes)), steps, mesh_shape, layout, draw(st.sampled_from(["stacked", "placement"]))


def _reference(steps, shapes, value):
    """Returns TensorFlow's value, the gradient, and the gradient of the sum of its cubes."""

    def run(v):
        for step, dims in zip(steps, shapes, strict=True):
            v = step.reference(v, dims)
        return v

    @tf.function(autograph=False)  # some operations have no gradient in eager mode
    def derivatives(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = run(x)
                total = tf.reduce_sum(y * tf.cast(_weights(y.shape), y.dtype))
            first = inner.gradient(total, x, unconnected_gradients="zero")
            total = tf.reduce_sum(first**3)
        return y, first, outer.gradient(total, x, unconnected_gradients="zero")

    return [v.numpy() for v in derivatives(tf.constant(value))]


def _weights(sizes):
    return np.cos(np.arange(int(np.prod(sizes)))).reshape(sizes)


def check(chain, dtype):
    """Asserts that a chain equals TensorFlow; in 16 bits, that its value equals the value of TensorFlow in float64."""
    dims, steps, mesh_shape, layout, mesh_impl = chain
    is_exact = dtype in ("float32", "float64")
    if dtype != "float64":
        steps = [step for step in steps if step.name not in COARSE]
    taken, shapes = [], []

    def fn(x):
        taken.clear()
        shapes.clear()
        t = x
        for step in steps:
            if step.accepts(_dims(t.shape)):
                taken.append(step)
                shapes.append(_dims(t.shape))
                t = step.fn(t)
        if not is_exact:
            return t
        weights = tf.constant(_weights([dim.size for dim in t.shape.dims]), dtype)
        (first,) = mtf.gradients([mtf.reduce_sum(t * mtf.import_tf_tensor(t.mesh, weights, t.shape))], [x])
        second = None if first is None else mtf.gradients([mtf.reduce_sum(first * first * first)], [x])[0]
        return t, *(mtf.zeros_like(x) if g is None else g for g in (first, second))

    specs = {"x": (",".join(f"{name}:{size}" for name, size in dims), dtype)}
    value = np.random.default_rng(len(steps)).uniform(-1, 1, [size for _, size in dims])
    value = tf.cast(value, dtype)
    program = mi.Program(fn, specs, mesh_shape, layout, mesh_impl, devices=["CPU:0", "CPU:1"])
    results = program(x=value)
    expected = _reference(taken, shapes, tf.cast(value, tf.float64).numpy())
    assume(all(np.isfinite(each).all() and np.abs(each).max() < 1e6 for each in expected))
    results = results if is_exact else [results]
    worst = [difference(tf.cast(r, tf.float64), e) for r, e in zip(results, expected)]
    assert max(worst[: 2 if dtype == "float32" else 3]) <= TOLERANCES[dtype], f"{taken}: {worst}"


@pytest.mark.slow
@settings(max_examples=150)
@given(chains())
def test_chains_in_float64(chain):
    check(chain, "float64")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@settings(max_examples=30)
@given(chains())
def test_chains_in_other_dtypes(dtype, chain):
    check(chain, dtype)
