"""Each layer under layouts, its weights and their names, and its errors."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.program.tracing import trace_only
from tests.engine.eager import EagerProgram
from tests.engine.harness import TOLERANCES, difference

mtf, layers = mi.mtf, mi.layers

LINE, PLANE, VOLUME = "batch:2,x:7,channels:4", "batch:2,x:7,y:5,channels:4", "batch:2,x:4,y:5,z:3,channels:4"
LAYERS = {
    "conv1d": (lambda: layers.Conv(3, activation="leaky_relu"), LINE),
    "conv2d": (lambda: layers.Conv(6, (3, 2), strides=(2, 1), groups=2, activation="relu"), PLANE),
    "conv3d": (lambda: layers.Conv(3, 3, dilation=(1, 2, 1), use_bias=False, activation=mtf.tanh), VOLUME),
    "valid": (lambda: layers.Conv(3, 2, padding="valid", bias_initializer=[1, 2, 3]), PLANE),
    "padded": (lambda: layers.Conv(3, 3, padding=[(2, 0), (0, 1)]), PLANE),
    "conv_transpose": (lambda: layers.ConvTranspose(3, activation="silu"), PLANE),
    "conv_transpose3d": (lambda: layers.ConvTranspose(3, 3, strides=2, output_sizes=(7, 10, 5)), VOLUME),
    "separable_conv": (lambda: layers.SeparableConv(3, strides=2, depth_multiplier=2, activation="gelu"), PLANE),
    "dense": (lambda: layers.Dense(5, activation="softmax"), VOLUME),
    "instance_norm": (lambda: layers.Norm(), PLANE),
    "batch_norm": (lambda: layers.Norm("batch", is_training=True), PLANE),
    "group_norm": (lambda: layers.Norm("group", groups=2, epsilon=1e-3), PLANE),
    "layer_norm": (lambda: layers.Norm("layer"), PLANE),
    "residual": (lambda: layers.Residual(layers.Conv(4, use_bias=False), layers.Norm(), activation="relu"), PLANE),
    "projected": (lambda: layers.Residual(layers.Conv(6, strides=2), layers.Conv(6, strides=(1, 2))), PLANE),
    "up_sample": (lambda: layers.UpSample((2, 3)), PLANE),
    "linear": (lambda: layers.UpSample(2, "linear"), PLANE),
}
LAYOUTS = [("rows:2,cols:3", "x:rows,y:cols"), ("batch:2,model:3", "batch:batch,channels:model")]


def _run(make, shape, mesh_shape="", layout=""):
    """Returns {name: value} of the result, the gradients of `x` and of all weights, and the weights."""

    def fn(x):
        y = make()(x)
        variables = y.graph.trainable_variables
        wanted = [x, *(v.outputs[0] for v in variables)]
        weights = mtf.range(y.mesh, mtf.Dimension("values", y.shape.size), y.dtype)
        gradients = mtf.gradients([mtf.reduce_sum(y * mtf.reshape(mtf.sin(weights), y.shape))], wanted)
        return {"y": y, **dict(zip(["x", *(v.name for v in variables)], gradients, strict=True))}

    dims = {part.split(":")[0] for part in shape.split(",")}
    rules = ",".join(rule for rule in layout.split(",") if rule.split(":")[0] in dims)
    program = EagerProgram(fn, {"x": (shape, "float64")}, mesh_shape, rules)
    x = np.random.default_rng(0).standard_normal([int(part.split(":")[1]) for part in shape.split(",")])
    return program(x=x)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_equals_the_whole(name):
    make, shape = LAYERS[name]
    whole = _run(make, shape)
    assert all(np.abs(value).max() > 0 for value in whole.values())
    for mesh_shape, layout in LAYOUTS:
        split = _run(make, shape, mesh_shape, layout)
        assert split.keys() == whole.keys()
        for key, wanted in whole.items():
            assert difference(split[key], np.asarray(wanted)) < 1e-9, key


def _names(fn, shape=PLANE):
    graph = trace_only(fn, {"x": shape}).graph
    return {v.name: tuple(v.shape.to_integer_list) for v in graph.all_variables}


def test_names_and_shapes_of_weights():
    def network(x):
        x = layers.Conv(6, groups=2)(x)
        x = layers.Conv(8, 1, use_bias=False)(x)
        x = layers.Norm("batch", is_training=True)(x)
        x = layers.Norm("layer")(layers.Norm("layer", name="first")(x))
        x = layers.ConvTranspose(5, (2, 3))(x)
        x = layers.SeparableConv(3, depth_multiplier=2)(x)
        x = layers.Residual(layers.Conv(2, strides=2), lambda x: layers.Dense(2)(x))(layers.UpSample()(x))
        return layers.Dense(7)(mi.ops.global_avg_pool(x))

    assert _names(network) == {
        "conv/filter": (3, 3, 2, 6),
        "conv/bias": (6,),
        "conv_1/filter": (1, 1, 6, 8),
        **{f"batch_norm/{name}": (8,) for name in ("scale", "offset", "moving_mean", "moving_variance")},
        "first/scale": (8,),
        "first/offset": (8,),
        "layer_norm/scale": (8,),
        "layer_norm/offset": (8,),
        "conv_transpose/filter": (2, 3, 5, 8),
        "conv_transpose/bias": (5,),
        "separable_conv/depthwise/filter": (3, 3, 1, 10),
        "separable_conv/pointwise/filter": (1, 1, 10, 3),
        "separable_conv/bias": (3,),
        "residual/conv/filter": (3, 3, 3, 2),
        "residual/conv/bias": (2,),
        "residual/dense/weights": (2, 2),
        "residual/dense/bias": (2,),
        "residual/shortcut/filter": (1, 1, 3, 2),
        "residual/shortcut/bias": (2,),
        "dense/weights": (2, 7),
        "dense/bias": (7,),
    }


def test_the_numbers_of_layers_are_the_same_in_every_program():
    class Network:
        def __init__(self):
            self.first, self.second = layers.Conv(4), layers.Conv(4)

        def __call__(self, x):
            return layers.Conv(2)(self.second(self.first(x)))

    network = Network()
    names = [_names(network), _names(lambda x: mtf.reduce_sum(network(x))), _names(Network())]
    assert names[0] == names[1] == names[2]
    assert [name for name in names[0] if name.endswith("filter")] == ["conv/filter", "conv_1/filter", "conv_2/filter"]


def test_two_calls_of_a_layer_share_its_weights():
    def network(x):
        conv, norm = layers.Conv(4), layers.Norm("group", groups=2)
        with layers.scope("encoder"):
            x = norm(conv(x))
        with layers.scope("decoder"):
            return norm(conv(x))

    assert list(_names(network)) == [
        *("encoder/conv/filter", "encoder/conv/bias", "encoder/group_norm/scale", "encoder/group_norm/offset")
    ]


def test_a_scope_that_is_entered_again_shares_its_weights():
    def network(x):
        with layers.scope("features"):
            return layers.Conv(4)(layers.Conv(4)(x))

    assert _names(lambda x: network(x) - network(-x)) == _names(network)
    shared = _run(lambda: lambda x: network(x) + network(x), PLANE)
    once = _run(lambda: network, PLANE)
    assert difference(shared["y"], 2 * np.asarray(once["y"])) < TOLERANCES["float64"]
    name = "features/conv_1/filter"
    assert difference(shared[name], 2 * np.asarray(once[name])) < TOLERANCES["float64"]


def test_layers_with_one_name_share_their_weights():
    assert len(_names(lambda x: layers.Conv(4, name="a")(layers.Conv(4, name="a")(x)))) == 2


def test_weights_are_float32_in_bfloat16():
    def fn(x):
        y = layers.Dense(3)(layers.Norm("layer")(layers.Conv(4, activation="gelu")(x)))
        return mtf.gradients([mtf.reduce_sum(y)], [v.outputs[0] for v in y.graph.trainable_variables]), y

    traced = trace_only(fn, {"x": (PLANE, "bfloat16")})
    gradients, y = traced.outputs
    assert y.dtype == tf.bfloat16
    assert {v.outputs[0].dtype for v in traced.graph.all_variables} == {tf.float32}
    assert {g.dtype for g in gradients} == {tf.float32}
    assert layers.widen(y).dtype == tf.float32


def test_initial_values():
    def fn(x):
        layers.Conv(64, 1, bias_initializer=0.5)(x)
        layers.ConvTranspose(64, 3, strides=2, kernel_initializer="zeros")(x)
        return layers.ConvTranspose(64, 4, strides=2, name="up")(x)

    program = mi.Program(fn, {"x": "batch:1,x:2,y:2,channels:64"})
    values = {name: variable.numpy() for name, variable in program.variables.items()}
    np.testing.assert_array_equal(values["conv/bias"], 0.5)
    np.testing.assert_array_equal(values["conv_transpose/filter"], 0)
    assert np.isclose(values["conv/filter"].var(), 2 / 64, rtol=0.1)
    # A value of the result is a sum over 64 channels and 4 of the 16 taps.
    assert np.isclose(values["up/filter"].var(), 2 / (4 * 64), rtol=0.1)


def test_kernel_sizes_of_each_dimension_allow_several_batch_dimensions():
    shape = "batch:2,rois:3,height:4,width:5,channels:4"
    graph = trace_only(lambda x: layers.ConvTranspose(2, (2, 2))(layers.Conv(3, (3, 3))(x)), {"x": shape})
    assert str(graph.outputs.shape) == "Shape[batch=2, rois=3, height=8, width=10, channels=2]"


def test_numpy_integers_are_sizes():
    two, three = np.int64(2), np.int32(3)
    for layer in (
        layers.Conv(two, (three, 1), strides=two, dilation=np.int8(1), groups=two),
        layers.SeparableConv(two, three, depth_multiplier=two),
        layers.ConvTranspose(two, three, strides=(two, two)),
        layers.Dense(two),
        layers.Norm("group", groups=two),
        layers.UpSample((two, three)),
    ):
        assert trace_only(layer, {"x": PLANE}).outputs.shape.ndims == 4
    with pytest.raises(mi.ConfigError, match="filters = True is not a positive integer"):
        layers.Conv(True)


def test_channels_have_another_name_on_request():
    for layer in (layers.Conv(3, 1, output_name="classes"), layers.Dense(3, output_name="classes")):
        (y,) = [trace_only(layer, {"x": PLANE}).outputs]
        assert str(y.shape) == "Shape[batch=2, x=7, y=5, classes=3]"


CHOICES = "'relu', 'leaky_relu', 'gelu', 'silu', 'sigmoid', 'tanh', 'softmax'"
ERRORS = [
    (
        lambda x: layers.Norm("batchnorm"),
        "mi.layers.Norm: kind = 'batchnorm' is not known. Did you mean 'batch'? Fix: choose one of 'instance', "
        "'batch', 'group', 'layer'.",
    ),
    (
        lambda x: layers.Norm("batch"),
        "mi.layers.Norm: is_training = None: a batch norm uses the statistics of the batch in training and moving "
        "statistics in prediction. Fix: pass is_training=True or is_training=False.",
    ),
    (
        lambda x: layers.Norm("instance", groups=2),
        "mi.layers.Norm: groups = 2 with kind = 'instance'. Fix: set groups for a group norm, and only "
        "for a group norm.",
    ),
    (
        lambda x: layers.Norm("group", groups=3, name="norm")(x),
        "group_norm 'norm': groups must be an int that divides 'channels' (size 4), not 3",
    ),
    (
        lambda x: layers.Conv(3, activation="rellu", name="a"),
        f"mi.layers.Conv 'a': activation = 'rellu' is not known. Did you mean 'relu'? Fix: choose one of {CHOICES}.",
    ),
    (
        lambda x: layers.Dense(3, activation=7),
        f"mi.layers.Dense: activation = 7 is not a function. Fix: use a function, or one of {CHOICES}.",
    ),
    (
        lambda x: layers.Conv(0),
        "mi.layers.Conv: filters = 0 is not a positive integer. Fix: use an integer of at least 1.",
    ),
    (
        lambda x: layers.Conv(3, kernel_size=2.5),
        "mi.layers.Conv: kernel_size = 2.5 is not a positive integer. Fix: use an integer of at least 1, or one for "
        "each of 1 to 3 spatial dimensions.",
    ),
    (
        lambda x: layers.Conv(3, kernel_initializer=0.1),
        "mi.layers.Conv: kernel_initializer = 0.1 is not a TensorFlow initializer. Fix: use a TensorFlow initializer, "
        "or one of 'he_normal', 'glorot_uniform', 'lecun_normal', 'zeros'.",
    ),
    (
        lambda x: layers.Conv(6, groups=3)(x),
        "mi.layers.Conv 'conv': groups = 3 must divide the 4 channels of the input Shape[batch=2, x=7, y=5, "
        "channels=4] and filters = 6. Fix: use another number of groups or filters.",
    ),
    (
        lambda x: layers.Conv(4, groups=2)(mtf.reduce_sum(x, reduced_dim=x.shape.dims[2])),
        "mi.layers.Conv 'conv': groups = 2, but the input Shape[batch=2, x=7, channels=4] has one spatial dimension. "
        "Fix: add a spatial dimension of size 1, or use groups=1.",
    ),
    (
        lambda x: layers.Conv(4, (3, 3, 3))(x),
        "mi.layers.Conv 'conv': the input Shape[batch=2, x=7, y=5, channels=4] has 2 dimensions between the batch and "
        "the channels, but the layer has sizes for [3]. Fix: use an int for all spatial dimensions, or one size for "
        "each of them.",
    ),
    (
        lambda x: layers.Residual(layers.Conv(4, padding="valid"))(x),
        "mi.layers.Residual 'residual': the input has the shape Shape[batch=2, x=7, y=5, channels=4] and the result "
        "of the layers Shape[batch=2, x=5, y=3, channels=4], so they cannot be added. Fix: use layers with padding "
        "'same', or a shortcut that returns a tensor of the second shape.",
    ),
    (
        lambda x: layers.Residual(layers.Conv(4), shortcut="pool"),
        "mi.layers.Residual: shortcut = 'pool' is not a layer or a function. Fix: use a layer or a function.",
    ),
    (
        lambda x: layers.Residual(layers.Conv(4), "relu"),
        "mi.layers.Residual: argument 2 is 'relu', which is not a layer. Fix: use a layer or a function of a tensor, "
        "and name arguments such as activation='relu'.",
    ),
    (
        lambda x: layers.UpSample(2, "cubic"),
        "mi.layers.UpSample: method = 'cubic' is not known. Fix: choose one of 'nearest', 'linear'.",
    ),
    (
        lambda x: layers.concat([x, layers.UpSample()(x)]),
        "mi.layers.concat: the dimensions before the channels differ: Shape[batch=2, x=7, y=5, channels=4] and "
        "Shape[batch=2, x=14, y=10, channels=4]. Fix: resize or crop one of the tensors.",
    ),
    (lambda x: layers.concat([]), "mi.layers.concat needs at least one tensor."),
    (
        lambda x: layers.Conv(6, name="a")(layers.Conv(4, name="a")(x)),
        "the weight 'a/filter' has the shape Shape[kernel_x=3, kernel_y=3, channels=4, filters=4], but a layer of this "
        "name needs Shape[kernel_x=3, kernel_y=3, channels=4, filters=6]. Fix: give each layer a name of its own, or "
        "call a layer only on tensors with as many channels.",
    ),
    (
        lambda x: layers.Conv(3)(np.zeros(3)),
        "mi.layers.Conv: the input must be a tensor of a program, not ndarray. Fix: call the layer in the function of "
        "an mi.Program or in a method of a task.",
    ),
    (
        lambda x: layers.Dense(4, name="a")(layers.Conv(4, name="a")(x)),
        "mi.layers.Dense 'a': the layer Conv already has this name, and layers with the same name share their weights, "
        "but this layer is Dense. Fix: give each layer a name of its own.",
    ),
    (
        lambda x: layers.Norm("batch", is_training=True, name="a")(layers.Norm("layer", name="a")(x)),
        "mi.layers.Norm 'a': the layer Norm('layer') already has this name, and layers with the same name share their "
        "weights, but this layer is Norm('batch'). Fix: give each layer a name of its own.",
    ),
    (
        lambda x: layers.Conv(3, output_name="y")(x),
        "conv2d 'conv/conv': the result would have two dimensions 'y', of sizes 5 and 3. The inputs are Shape[batch=2, "
        "x=7, y=5, channels=4] and Shape[kernel_x=3, kernel_y=3, channels=4, y=3]. Fix: resize or crop an input, or "
        "rename one dimension with mtf.rename_dimension.",
    ),
    (
        lambda x: layers.Dense(3, output_name=3),
        "mi.layers.Dense: output_name = 3 is not a name for a dimension. Fix: use letters, digits and '_', such as "
        "output_name='classes'.",
    ),
    (
        lambda x: layers.Conv(3, bias_initializer="zerso"),
        "mi.layers.Conv: bias_initializer = 'zerso' is not known. Did you mean 'zeros'? Fix: choose one of "
        "'he_normal', 'glorot_uniform', 'lecun_normal', 'zeros'.",
    ),
    (
        lambda x: layers.Conv(3, bias_initializer=[0.0, 1.0])(x),
        "the layer 'conv': bias_initializer has the shape [2], but the layer has 3 filters. Fix: use one number, or 3 "
        "numbers.",
    ),
    (
        lambda x: layers.Dense(3, bias_initializer=None),
        "mi.layers.Dense: bias_initializer = None is not an initializer. Fix: use a number, a number for each filter, "
        "or an initializer of TensorFlow; use_bias=False omits the bias.",
    ),
    (
        lambda x: layers.Norm("layer", epsilon=-1)(x),
        "layer_norm 'layer_norm': epsilon = -1. Fix: use a number of at least 0, such as 1e-6.",
    ),
    (
        lambda x: layers.Norm("batch", is_training=True, momentum=2, name="norm")(x),
        "batch_norm 'norm': momentum = 2. Fix: use a number from 0 to 1.",
    ),
    (
        lambda x: layers.Residual(layers.Conv(4), lambda y: None, name="block")(x),
        "mi.layers.Residual 'block': argument 2 returned NoneType, not a tensor. Fix: return the result of the layer "
        "or the function.",
    ),
    (
        lambda x: layers.concat(x),
        "mi.layers.concat needs a list of tensors, not Tensor. Fix: call mi.layers.concat([x, y]).",
    ),
    (
        lambda x: layers.concat([x, np.zeros(3)]),
        "mi.layers.concat needs a list of tensors, not ndarray in a list. Fix: call mi.layers.concat([x, y]).",
    ),
    (
        lambda x: layers.Conv(3, name="a")(mtf.cast(x, tf.int32)),
        "the weight 'a/filter': the input Shape[batch=2, x=7, y=5, channels=4] of its layer is int32, but it must have "
        "floating-point numbers. Fix: convert it with mtf.cast.",
    ),
    (
        lambda x: layers.Dense(3)(mtf.reduce_sum(x)),
        "mi.layers.Dense 'dense': the input has no dimensions, but the layer needs channels. Fix: keep the channels in "
        "reductions, for instance with mtf.reduce_mean(x, output_shape=[batch, channels]).",
    ),
    (
        lambda x: layers.Conv(3)(mi.ops.global_avg_pool(x)),
        "mi.layers.Conv 'conv': the input Shape[batch=2, channels=4] has 0 dimensions between the batch and the "
        "channels, but the layer has sizes for 1 to 3. Fix: pass Tensor[batch, spatial..., channels], or use "
        "mi.layers.Dense for a tensor without an image.",
    ),
    (
        lambda x: layers.Conv(3, padding="samee")(x),
        "conv2d 'conv': padding must be 'SAME', 'VALID' or 2 pairs (before, after), one for each spatial dimension, "
        "not 'samee'. Did you mean 'SAME'? Fix: use one of these names, or pairs such as [(1, 1), (1, 1)].",
    ),
    (
        lambda x: layers.Conv(3, name="my conv"),
        "mi.layers.Conv: name = 'my conv' is not a name for variables. Fix: use letters, digits, '_', '-', '.' and "
        "'/', and begin with a letter or a digit.",
    ),
]


def test_scopes_separate_names():
    """In another scope, and in another program, another kind of layer may have the same name."""

    def network(x):
        with layers.scope("b"):
            x = layers.Dense(4, name="a")(x)
        return layers.Conv(4, name="a")(layers.UpSample(name="a")(x))

    names = sorted(trace_only(network, {"x": PLANE}).variables.homes)
    assert names == [
        "a/bias",
        "a/filter",
        "b/a/bias",
        "b/a/weights",
    ]
    trace_only(layers.Dense(4, name="a"), {"x": PLANE})


@pytest.mark.parametrize(("fn", "message"), ERRORS)
def test_errors(fn, message):
    with pytest.raises((mi.ConfigError, mi.ShapeError)) as error:
        trace_only(fn, {"x": PLANE})
    assert str(error.value) == message
