"""Activations, layer norm, global pools and pixel shuffles: sizes of any kind, 16 bits, memory and errors."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import mtf_imaging as mi
from mtf_imaging.engine.meshes.portable import portable_operations
from mtf_imaging.engine.ops.smooth import Smooth, SmoothGrad
from mtf_imaging.engine.program.tracing import trace_only
from tests.engine.harness import Case, check
from tests.engine.ops import building_blocks

mtf = mi.mtf
X = "batch:2,x:4,y:4,channels:4"


@pytest.mark.mostly_slow(fast=0.3)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    number=st.integers(1, 7),
    block=st.integers(1, 4),
    parts=st.integers(1, 5),
    channels=st.integers(1, 3),
    model=st.integers(1, 3),
)
@pytest.mark.parametrize("op", ["space_to_depth", "depth_to_space"])
def test_blocks_of_any_size(op, number, block, parts, channels, model):
    size, depth = (number * block, channels) if op == "space_to_depth" else (number, channels * block)
    case = Case(
        f"{op} {number} {block} {channels}",
        lambda x: getattr(mi.ops, op)(x, block),
        lambda x: getattr(building_blocks, op)(x, (block,)),
        {"x": f"batch:1,x:{size},channels:{depth}"},
    )
    check(case, "float64", f"rows:{parts},model:{model}", "x:rows,channels:model", "stacked")


@settings(max_examples=8, deadline=None, derandomize=True)
@given(size=st.integers(1, 5), parts=st.integers(1, 4), channels=st.integers(2, 7), model=st.integers(1, 5))
def test_layer_norms_of_any_size(size, parts, channels, model):
    case = Case(
        f"layer_norm {size} {channels}",
        lambda x: mi.ops.layer_norm(x, 1e-3),
        building_blocks.layer_norm,
        {"x": f"batch:2,x:{size},channels:{channels}"},
    )
    check(case, "float64", f"rows:{parts},model:{model}", "x:rows,channels:model", "stacked")


def test_space_to_depth_is_the_inverse_of_depth_to_space():
    x = np.random.default_rng(0).standard_normal([2, 6, 4, 2, 3])
    program = mi.Program(
        lambda x: mi.ops.depth_to_space(mi.ops.space_to_depth(x, (3, 2, 1)), (3, 2, 1)),
        {"x": ("batch:2,x:6,y:4,z:2,channels:3", "float64")},
        mesh_shape="rows:4,cols:3",
        layout="x:rows,y:cols",
    )
    np.testing.assert_array_equal(program(x=x), x)


def _keras_layer_norm(x):
    layer = tf.keras.layers.LayerNormalization(epsilon=1e-6, dtype="float64")
    return layer(x)


def _keras_separable(x, depthwise, pointwise):
    layer = tf.keras.layers.SeparableConv2D(3, 3, padding="same", use_bias=False, dtype="float64")
    layer.build(x.shape)
    layer.set_weights([depthwise[:, :, 0, :, None], pointwise])
    return layer(x)


def test_layers_of_keras_have_the_same_values():
    rng = np.random.default_rng(0)
    x, depthwise = rng.standard_normal([2, 5, 4, 4]), rng.standard_normal([3, 3, 1, 4])
    pointwise = rng.standard_normal([1, 1, 4, 3])

    def fn(x, depthwise, pointwise):
        return {
            "gelu": mi.ops.gelu(x),
            "approximate": mi.ops.gelu(x, approximate=True),
            "silu": mi.ops.silu(x),
            "norm": mi.ops.layer_norm(x),
            "mean": mi.ops.global_avg_pool(x),
            "separable": mi.ops.separable_conv2d(x, depthwise, pointwise),
        }

    inputs = {
        "x": ("batch:2,x:5,y:4,channels:4", "float64"),
        "depthwise": ("fx:3,fy:3,one:1,channels:4", "float64"),
        "pointwise": ("px:1,py:1,channels:4,out:3", "float64"),
    }
    program = mi.Program(fn, inputs, mesh_shape="rows:2,model:3", layout="x:rows,channels:model")
    results = program(x=x, depthwise=depthwise, pointwise=pointwise)
    wanted = {
        "gelu": tf.keras.activations.gelu(x),
        "approximate": tf.keras.activations.gelu(x, approximate=True),
        "silu": tf.keras.activations.silu(x),
        "norm": _keras_layer_norm(x),
        "mean": tf.keras.layers.GlobalAveragePooling2D(dtype="float64")(x),
        "separable": _keras_separable(x, depthwise, pointwise),
    }
    for name, value in results.items():
        # The constants of Keras are float32.
        np.testing.assert_allclose(value, wanted[name], rtol=0, atol=1e-7 if name != "norm" else 1e-6, err_msg=name)


@pytest.mark.parametrize("op", [mi.ops.gelu, mi.ops.silu, mi.ops.layer_norm], ids=["gelu", "silu", "layer_norm"])
def test_results_in_16_bits_are_rounded_once(op):
    x = np.asarray(np.random.default_rng(0).standard_normal([2, 4, 4, 4]) * 3, "float32")
    x = tf.cast(tf.cast(x, tf.bfloat16), tf.float32).numpy()
    exact = np.asarray(mi.Program(op, {"x": (X, "float64")})(x=x))
    rounded = np.asarray(mi.Program(op, {"x": (X, "bfloat16")})(x=x), "float64")
    np.testing.assert_allclose(rounded, exact, rtol=2**-8, atol=1e-6)


def _gradient(op):
    def fn(x):
        (dx,) = mtf.gradients([mtf.reduce_sum(op(x))], [x])
        return dx

    return trace_only(fn, {"x": X}).needed


@pytest.mark.parametrize("op", [mi.ops.gelu, mi.ops.silu], ids=["gelu", "silu"])
def test_the_backward_pass_of_a_smooth_activation_reads_only_the_input(op):
    (gradient,) = (each for each in _gradient(op) if isinstance(each, SmoothGrad))
    x, dy = gradient.inputs
    assert x.operation.name == "x"
    assert not isinstance(dy.operation, Smooth)


def test_relu_is_the_leaky_relu_with_slope_0():
    def types(op):
        return [type(each) for each in _gradient(op)]

    assert types(mi.ops.relu) == types(lambda x: mi.ops.leaky_relu(x, 0.0))


def test_derivatives_of_large_inputs_are_finite():
    def fn(x):
        ys = [mi.ops.gelu(x), mi.ops.gelu(x, approximate=True), mi.ops.silu(x)]
        first = [mtf.gradients([mtf.reduce_sum(y)], [x])[0] for y in ys]
        return [*ys, *first, *(mtf.gradients([mtf.reduce_sum(g)], [x])[0] for g in first)]

    values = mi.Program(fn, {"x": ("n:4", "float32")})(x=[-1e4, -100, 100, 1e4])
    for value, wanted in zip(values, [[0, 0, 100, 1e4]] * 3 + [[0, 0, 1, 1]] * 3 + [[0, 0, 0, 0]] * 3, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("widest", [tf.float64, tf.float32], ids=["onnx", "tflite"])
def test_gelu_can_be_converted(widest):
    x = np.linspace(-4, 4, 8, dtype=np.float32)
    with portable_operations(widest):
        program = mi.Program(mi.ops.gelu, {"x": "n:8"})
    np.testing.assert_allclose(program(x=x), tf.nn.gelu(x), atol=1e-6)
    if widest == tf.float64:
        assert "Erfc" not in {op.type for op in program.function.graph.get_operations()}
        return
    call = tf.function(lambda x: program(x=x), input_signature=[tf.TensorSpec([8])]).get_concrete_function()
    model = tf.lite.TFLiteConverter.from_concrete_functions([call]).convert()
    assert b"Flex" not in model


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            lambda x: mi.ops.space_to_depth(x, 3, name="down"),
            "space_to_depth 'down': blocks of 3 voxels do not divide 'x' (size 4). Fix: pad 'x' to 6 with mi.ops.pad.",
        ),
        (
            lambda x: mi.ops.depth_to_space(x, 3),
            "depth_to_space 'depth_to_space': a block has 9 voxels, which do not divide 'channels' (size 4). "
            "Fix: use a multiple of 9 channels.",
        ),
        (
            lambda x: mi.ops.depth_to_space(x, (2, 1, 1)),
            "depth_to_space 'depth_to_space': block_size = (2, 1, 1) must be an int of at least 1, or one for each of "
            "1 to 3 spatial dimensions, and the input has Shape[batch=2, x=4, y=4, channels=4]. Fix: use an input with "
            "a batch, 1 to 3 spatial dimensions and channels, or one block size for each spatial dimension.",
        ),
        (
            lambda x: mi.ops.gelu(mtf.cast(x, tf.int32)),
            "gelu 'gelu': the input is int32, but it must have floating-point numbers. Fix: convert it with mtf.cast.",
        ),
        (
            lambda x: mi.ops.layer_norm(mtf.reduce_sum(x, output_shape=mtf.Shape(x.shape.dims[:1]))),
            "layer_norm 'layer_norm' needs at least 2 dimensions (batch, channels), but its input has 1: "
            "Shape[batch=2]",
        ),
        (
            lambda x: mi.ops.global_avg_pool(mtf.reduce_sum(x, output_shape=mtf.Shape(x.shape.dims[:2]))),
            "global_avg_pool 'global_avg_pool' needs at least 3 dimensions (batch, a spatial one, channels), but its "
            "input has 2: Shape[batch=2, x=4]",
        ),
    ],
)
def test_errors(fn, message):
    with pytest.raises(mi.ShapeError) as error:
        trace_only(fn, {"x": X})
    assert str(error.value) == message


@pytest.mark.parametrize(
    "name", ["relu", "leaky_relu", "gelu", "silu", "instance_norm", "layer_norm", "global_avg_pool"]
)
def test_inputs_are_tensors_of_a_program(name):
    with pytest.raises(mi.ConfigError) as error:
        getattr(mi.ops, name)(np.zeros([1, 4, 4, 2]))
    assert str(error.value) == (
        f"{name} '{name}': the input must be a tensor of a program, not ndarray. Fix: call the operation in the "
        "function of an mi.Program or in a method of a task."
    )


def test_operations_that_need_floating_point_numbers():
    for name in ("gelu", "layer_norm", "instance_norm"):
        with pytest.raises(mi.ShapeError, match=f"^{name} '{name}': the input is int32, but .* Fix: convert it with"):
            trace_only(getattr(mi.ops, name), {"x": (X, "int32")})


def test_the_classes_are_a_dimension():
    with pytest.raises(mi.ConfigError, match=r"^softmax: the classes must be a dimension of .*, not 'channels'. Fix:"):
        trace_only(lambda x: mi.ops.softmax(x, "channels"), {"x": X})
