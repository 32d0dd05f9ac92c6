"""Weights of Keras models: each layer computes the same here, whole and split, and mistakes are listed in one error."""

import keras
import numpy as np
import pytest
import tf_keras

import mtf_imaging as mi
from mtf_imaging.errors import CheckpointError, ConfigError
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights

L, K = mi.layers, keras.layers
AXES = "xyz"
# {name: (Keras layer, layer here, spatial dimensions)}; the names agree.
CASES = {
    "conv1d": (lambda: K.Conv1D(4, 3, padding="same"), lambda: L.Conv(4), 1),
    "conv2d": (lambda: K.Conv2D(4, (3, 5), strides=2, padding="same"), lambda: L.Conv(4, (3, 5), 2), 2),
    "conv2d_groups": (lambda: K.Conv2D(4, 3, groups=2, padding="valid"), lambda: L.Conv(4, 3, 1, "valid", groups=2), 2),
    "conv3d": (lambda: K.Conv3D(3, 3, padding="same", use_bias=False), lambda: L.Conv(3, use_bias=False), 3),
    "transpose1d": (lambda: K.Conv1DTranspose(3, 2, 2), lambda: L.ConvTranspose(3), 1),
    "transpose2d": (lambda: K.Conv2DTranspose(3, 3, 2, padding="same"), lambda: L.ConvTranspose(3, 3, 2), 2),
    "transpose3d": (lambda: K.Conv3DTranspose(3, 2, 2, padding="same"), lambda: L.ConvTranspose(3), 3),
    "depthwise": (
        lambda: K.DepthwiseConv2D(3, padding="same", depth_multiplier=2),
        lambda: L.Conv(8, groups=4),
        2,
    ),
    "separable": (
        lambda: K.SeparableConv2D(3, 3, padding="same", depth_multiplier=2),
        lambda: L.SeparableConv(3, depth_multiplier=2),
        2,
    ),
    "dense": (lambda: K.Dense(5, activation="relu"), lambda: L.Dense(5, activation="relu"), 2),
    "batch_norm": (
        lambda: K.BatchNormalization(scale=False),
        lambda: L.Norm("batch", epsilon=1e-3, is_training=False),
        2,
    ),
    "layer_norm": (lambda: K.LayerNormalization(center=False), lambda: L.Norm("layer", epsilon=1e-3), 2),
    "group_norm": (lambda: K.GroupNormalization(2, epsilon=1e-3), lambda: L.Norm("group", groups=2, epsilon=1e-3), 2),
}
SIZES = (6, 5, 4)


def _inputs(spatial):
    shape = ",".join(f"{axis}:{size}" for axis, size in zip(AXES, SIZES[:spatial], strict=False))
    return f"batch:2,{shape},channels:4"


def _named(build, name):
    layer = build()
    layer.name = name
    return layer


def _model(names, spatial):
    """Returns a model that applies layers to one image, with random weights."""
    keras.utils.set_random_seed(0)
    image = keras.Input((*SIZES[:spatial], 4))
    model = keras.Model(image, [_named(CASES[name][0], name)(image) for name in names], name="layers")
    rng = np.random.default_rng(0)
    for weight in model.weights:
        value = rng.normal(size=weight.shape)
        weight.assign(np.abs(value) if weight.name == "moving_variance" else value)
    return model


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_each_layer_computes_the_same(spatial):
    """Layers of Keras compute in float32, whole; those of this package whole, split evenly, and split unevenly."""
    names = [name for name, case in CASES.items() if case[2] == spatial]
    model = _model(names, spatial)
    image = np.random.default_rng(1).normal(size=(2, *SIZES[:spatial], 4)).astype(np.float32)
    expected = model(image)
    expected = expected if isinstance(expected, list) else [expected]

    def network(image):
        return tuple(_named(CASES[name][1], name)(image) for name in names)

    weights = None
    for mesh_shape, layout in [("", ""), ("rows:2", "x:rows"), ("rows:4,model:2", "x:rows,channels:model")]:
        program = mi.Program(network, {"image": _inputs(spatial)}, mesh_shape, layout, variables=weights)
        if weights is None:
            weights = program
            assert mi.keras.import_weights(model, program).keys() == program.variables.keys()
        for name, own, other in zip(names, program(image=image), expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-5, atol=2e-5, err_msg=f"{name} {layout}")


def test_every_known_layer_has_a_case():
    from mtf_imaging.training.keras.layers import LAYERS

    assert {type(build()).__name__ for build, _, _ in CASES.values()} == {*LAYERS}


def _nested(library, dense=3):
    """Returns a model with a nested model, a name that differs, and a layer that has no counterpart."""
    keras_layers = library.layers
    encoder = library.Sequential([keras_layers.Dense(4, name="first"), keras_layers.ReLU()], name="encoder")
    image = library.Input((6, 2))
    x = keras_layers.Dense(dense, name="dense_7")(encoder(image))
    return library.Model(image, keras_layers.SimpleRNN(2, name="recurrent")(x), name="nested")


def _network(image):
    with mi.layers.scope("network/down"):
        x = mi.layers.Dense(4, activation="relu", name="first")(image)
    return mi.layers.Dense(3, name="classes")(x)


NAMES = {"encoder": "network/down", "dense_7": "classes", "recurrent": None}


@pytest.fixture(scope="module")
def program():
    return mi.Program(_network, {"image": "batch:1,x:6,channels:2"})


@pytest.mark.parametrize("library", [keras, tf_keras], ids=["keras 3", "keras 2"])
def test_names_may_differ(program, library):
    model = _nested(library)
    mi.keras.import_weights(model, program, names=NAMES)
    for name, layer in (
        ("network/down/first", model.get_layer("encoder").layers[-2]),
        ("classes", model.get_layer("dense_7")),
    ):
        np.testing.assert_array_equal(program.variables[f"{name}/weights"], layer.kernel.numpy())
        np.testing.assert_array_equal(program.variables[f"{name}/bias"], layer.bias.numpy())


def test_a_folder_of_weights_starts_a_training(program, tmp_path):
    values = mi.keras.import_weights(_nested(keras), names=NAMES, output_dir=tmp_path / "weights")
    InitialWeights(tmp_path / "weights").apply(program)
    for name, value in values.items():
        np.testing.assert_array_equal(program.variables[name], value)
    mi.keras.import_weights(_nested(keras), names=NAMES, output_dir=tmp_path / "weights")  # replaces them
    (tmp_path / "file.txt").touch()
    with pytest.raises(ConfigError, match=r"contains file.txt, so it is not a folder of imported weights"):
        mi.keras.import_weights(_nested(keras), names=NAMES, output_dir=tmp_path)


def test_all_faults_are_listed(program):
    before = {name: variable.numpy() for name, variable in program.variables.items()}
    with pytest.raises(CheckpointError) as error:
        mi.keras.import_weights(_nested(keras, dense=5), program, names={"dense_7": "classes"})
    assert str(error.value).splitlines() == [
        "Keras model 'nested': 7 of its weights and layers cannot be imported:",
        "  'recurrent' is a SimpleRNN, which has no counterpart in mi.layers",
        "  'encoder/first/weights' [2, 4] is not a variable of the program; the closest one is "
        "'network/down/first/weights'",
        "  'encoder/first/bias' [4] is not a variable of the program; the closest one is 'network/down/first/bias'",
        "  'classes/weights' has shape [4, 3] in the program, but [4, 5] in Keras",
        "  'classes/bias' has shape [3] in the program, but [5] in Keras",
        "  no layer sets 'network/down/first/weights' [2, 4] of the program",
        "  no layer sets 'network/down/first/bias' [4] of the program",
        "Fix: give layers the same names and sizes, map other names with names={'name in Keras': 'name here'}, "
        "replace layers of other classes by those of Keras, or leave layers out with names={'name in Keras': None} and "
        "partial=True.",
    ]
    for name, variable in program.variables.items():
        np.testing.assert_array_equal(variable, before[name], err_msg="nothing is set after an error")


def test_a_part_of_the_variables(program):
    with pytest.raises(CheckpointError, match="no layer sets 'classes/weights'"):
        mi.keras.import_weights(_nested(keras), program, names=NAMES | {"dense_7": None})
    before = program.variables["classes/weights"].numpy()
    values = mi.keras.import_weights(_nested(keras), program, names=NAMES | {"dense_7": None}, partial=True)
    assert [*values] == ["network/down/first/weights", "network/down/first/bias"]
    np.testing.assert_array_equal(program.variables["classes/weights"], before)


def test_mistakes_have_fixes():
    with pytest.raises(ConfigError, match=r"no layer 'dense_8' with weights.* Did you mean 'dense_7'\?"):
        mi.keras.import_weights(_nested(keras), names={"dense_8": "classes"})
    with pytest.raises(CheckpointError, match=r"it has no weights. Fix: build it first"):
        mi.keras.import_weights(keras.Sequential([K.Dense(2)]))
    with pytest.raises(CheckpointError, match="'dense_7' and 'encoder/first' both have the name 'same' here"):
        mi.keras.import_weights(_nested(keras), names={"encoder/first": "same", "dense_7": "same", "recurrent": None})
    with pytest.raises(ConfigError, match=r"'unet.keras' is not a Keras model. Fix: load a file with keras"):
        mi.keras.import_weights("unet.keras")
