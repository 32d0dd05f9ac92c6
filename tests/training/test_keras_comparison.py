"""Keras models that compute something else than the program are refused: own classes, unknown options, differences."""

import keras
import numpy as np
import pytest
import tf_keras

import mtf_imaging as mi
from mtf_imaging.errors import CheckpointError, ConfigError
from mtf_imaging.training.optimizers import SGD

K = keras.layers


class Shifted(K.Conv2D):
    """A convolution with a further weight, and with another kernel."""

    def build(self, input_shape):
        super().build(input_shape)
        self.shift = self.add_weight(shape=(self.filters,), initializer="ones", name="shift")

    def call(self, inputs):
        return super().call(inputs) + self.shift


class Conv2D(tf_keras.layers.Conv2D):
    """A class with the name of its base class."""


class Block(K.Layer):
    """A layer with a list of layers, like a model, whose result is another one than that of its layers."""

    def __init__(self, **options):
        super().__init__(**options)
        self.layers = [K.Dense(4, name="first")]

    def build(self, input_shape):
        self.layers[0].build(input_shape)

    def call(self, inputs):
        return 3 * self.layers[0](inputs)


class Twice(keras.Model):
    def __init__(self, factor=2, **options):
        super().__init__(**options)
        self.dense, self.factor = K.Dense(4, name="same"), factor

    def call(self, inputs):
        return self.factor * self.dense(inputs)


def lora():
    layer = K.Dense(4, name="same")
    layer.build((None, 4, 4, 4))
    layer.enable_lora(2)
    return layer


def repeated():
    layer = K.Dense(4, name="same")
    layer.add_weight(shape=(4, 4), name="kernel")
    return layer


REFUSED = {
    "further weight": (lambda: Shifted(4, 3, name="same"), "is a Shifted, which derives from Conv2D and may compute "),
    "Keras 2": (lambda: Conv2D(4, 3, name="same"), "is a Conv2D, which derives from Conv2D and may compute something"),
    "list of layers": (lambda: Block(name="same"), "is a Block, which has no counterpart in mi.layers"),
    "nested model": (lambda: Twice(name="same"), "is a Twice, which has no counterpart in mi.layers"),
    "scaling": (
        lambda: K.LayerNormalization(rms_scaling=True, name="same"),
        "is a LayerNormalization with rms_scaling = True, but mi.layers.Norm has False",
    ),
    "axis": (
        lambda: K.BatchNormalization(axis=1, name="same"),
        "is a BatchNormalization with axis = 1, but mi.layers.Norm has -1",
    ),
    "several axes": (
        lambda: tf_keras.layers.LayerNormalization(axis=[2, 3], name="same"),
        "is a LayerNormalization with axis = [2, 3], but mi.layers.Norm has -1",
    ),
    "groups of another axis": (
        lambda: K.GroupNormalization(2, axis=2, name="same"),
        "is a GroupNormalization with axis = 2, but mi.layers.Norm has -1",
    ),
    "renorm": (
        lambda: K.BatchNormalization(renorm=True, name="same"),
        "is a BatchNormalization with renorm = True, but mi.layers.Norm has False",
    ),
    "dilated": (
        lambda: K.Conv2DTranspose(4, 3, dilation_rate=2, name="same"),
        "is a Conv2DTranspose with dilation_rate = [2, 2], but mi.layers.ConvTranspose has 1",
    ),
    "channels first": (
        lambda: K.Conv2D(4, 3, data_format="channels_first", name="same"),
        "is a Conv2D with data_format = 'channels_first', but mi.layers.Conv has 'channels_last'",
    ),
    "lora": (
        lora,
        "is a Dense with the weights kernel, bias, lora_kernel_a, lora_kernel_b, but mi.layers.Dense has no "
        "counterpart of lora_kernel_a, lora_kernel_b",
    ),
    "repeated name": (
        repeated,
        "is a Dense with the weights kernel, kernel, bias, but mi.layers.Dense has no counterpart of weights with the",
    ),
}


@pytest.mark.filterwarnings("ignore:You passed `rms_scaling=True`")
@pytest.mark.parametrize("name", REFUSED)
def test_layers_that_compute_something_else_are_refused(name, tmp_path):
    build, message = REFUSED[name]
    layer = build()
    library = tf_keras if isinstance(layer, tf_keras.layers.Layer) else keras
    image = library.Input((4, 4, 4))
    model = library.Model(image, library.layers.Dense(2, name="last")(layer(image)))
    with pytest.raises(CheckpointError) as error:
        mi.keras.import_weights(model, output_dir=tmp_path / "weights")
    assert f"\n  'same' {message}" in str(error.value)
    assert not (tmp_path / "weights").exists()
    assert [*mi.keras.import_weights(model, names={"same": None})] == ["last/weights", "last/bias"]


def test_weights_outside_layers_are_refused():
    class Loose(Twice):
        def build(self, input_shape):
            self.dense.build(input_shape)
            self.loose = self.add_weight(shape=(2,), name="loose")

    model = Loose(name="twice")
    model(np.zeros((1, 4), np.float32))
    with pytest.raises(CheckpointError) as error:
        mi.keras.import_weights(model)
    assert str(error.value).splitlines()[1:3] == [
        "  the weight 'loose' belongs to no layer",
        "  the model is a Loose, which may compute something else than its layers; with a program and all layers, its "
        "outputs are compared",
    ]


@pytest.fixture(scope="module")
def doubling():
    """Returns a program that multiplies the result of a dense layer by 2."""

    def network(image):
        return mi.layers.Dense(4, name="same")(image) * 2.0

    return mi.Program(network, {"image": "batch:2,x:6,channels:4"}, "rows:2", "x:rows")


@pytest.mark.parametrize("nested", [False, True])
def test_models_of_own_classes_are_compared(doubling, nested):
    for factor in (2, 3):
        model = Twice(factor)
        model(np.zeros((1, 6, 4), np.float32))
        if nested:
            image = keras.Input((6, 4))
            model = keras.Model(image, Twice(factor, name="twice")(image))
        before = doubling.variables["same/weights"].numpy()
        names = {"twice": ""} if nested else {}
        if factor == 2:
            values = mi.keras.import_weights(model, doubling, names=names)
            np.testing.assert_array_equal(doubling.variables["same/weights"], values["same/weights"])
        else:
            with pytest.raises(
                CheckpointError, match=r"computes something else: on random inputs, output 0 differs by"
            ):
                mi.keras.import_weights(model, doubling, names=names)
            np.testing.assert_array_equal(doubling.variables["same/weights"], before)


def _norm_model(epsilon, **options):
    image = keras.Input((6, 4), name="image")
    x = K.BatchNormalization(epsilon=epsilon, name="norm")(K.Dense(4, name="same", **options)(image))
    return keras.Model(image, x, name="small")


def _norm_program(is_training=False, dtype="float32", activation=None):
    def network(image):
        x = mi.layers.Dense(4, activation=activation, name="same")(image)
        return mi.layers.Norm("batch", epsilon=1e-3, is_training=is_training, name="norm")(x)

    return mi.Program(network, {"image": ("batch:2,x:6,channels:4", dtype)})


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_outputs_are_compared(dtype, caplog):
    program = _norm_program(dtype=dtype)
    with caplog.at_level("INFO"):
        mi.keras.import_weights(_norm_model(1e-3), program)
    assert "Keras model 'small': the outputs of the program differ by " in caplog.text
    assert int(program.step) == 0


@pytest.mark.parametrize(
    ("model", "program"),
    [
        ({"epsilon": 1e-6}, {}),
        ({"epsilon": 1e-3, "activation": "relu"}, {}),
        ({"epsilon": 1e-3}, {"activation": "relu"}),
        ({"epsilon": 1e-3}, {"is_training": True}),
        ({"epsilon": 1e-3, "activation": "relu"}, {"dtype": "bfloat16"}),
        ({"epsilon": 1e-3, "bias_initializer": keras.initializers.Constant(np.nan)}, {}),
    ],
)
def test_programs_that_compute_something_else_are_refused(model, program):
    model, program = _norm_model(**model), _norm_program(**program)
    before = {name: variable.numpy() for name, variable in program.variables.items()}
    with pytest.raises(
        CheckpointError, match=r"No weight was imported. Fix: give the layers here the strides, padding"
    ):
        mi.keras.import_weights(model, program)
    for name, variable in program.variables.items():
        np.testing.assert_array_equal(variable, before[name], err_msg=name)
    assert int(program.step) == 0
    values = mi.keras.import_weights(model, program, verify=False)
    for name, variable in program.variables.items():
        np.testing.assert_allclose(variable.numpy().astype(np.float32), values[name], rtol=1e-2, err_msg=name)


def test_a_function_maps_the_outputs(doubling):
    image = keras.Input((6, 4))
    model = keras.Model(image, K.Dense(4, name="same")(image))
    with pytest.raises(CheckpointError, match="computes something else"):
        mi.keras.import_weights(model, doubling)
    mi.keras.import_weights(model, doubling, verify=lambda y: 2 * y)


def test_several_inputs_are_matched_by_name():
    first, second = keras.Input((6, 2), name="first"), keras.Input((6, 2), name="second")
    model = keras.Model([second, first], [K.Dense(3, name="a")(first), K.Dense(3, name="b")(second)])

    def network(first, second):
        return mi.layers.Dense(3, name="a")(first), mi.layers.Dense(3, name="b")(second)

    mi.keras.import_weights(model, mi.Program(network, dict.fromkeys(("first", "second"), "batch:1,x:6,channels:2")))


def test_what_cannot_be_compared_has_a_fix(doubling):
    image = keras.Input((6, 4))
    model = keras.Model(image, [K.Dense(4, name="same")(image)] * 2, name="two")
    with pytest.raises(
        ConfigError, match=r"shapes \[\[2, 6, 4\], \[2, 6, 4\]\], and the program \[\[2, 6, 4\]\], .* Fix: "
    ):
        mi.keras.import_weights(model, doubling)
    two = {"image": "batch:1,x:6,channels:4", "labels": ("batch:1,x:6,channels:4", "int32")}
    program = mi.Program(lambda image, labels: mi.layers.Dense(4, name="same")(image), two)
    with pytest.raises(
        ConfigError, match=r"has 1 inputs, and the program has the inputs image, labels, so .*verify=Fal"
    ):
        mi.keras.import_weights(model, program)
    mi.keras.import_weights(model, program, verify=False)


def test_a_comparison_does_not_train():
    def network(image):
        y = mi.layers.Dense(4, name="same")(image)
        weights = y.graph.trainable_variables
        loss = mi.mtf.reduce_mean(mi.mtf.square(y))
        gradients = mi.mtf.gradients([loss], [variable.outputs[0] for variable in weights])
        SGD(0.1, momentum=0.9).apply(gradients, weights)
        return y

    program = mi.Program(network, {"image": "batch:2,x:6,channels:4"})
    image = keras.Input((6, 4))
    values = mi.keras.import_weights(keras.Model(image, K.Dense(4, name="same")(image)), program)
    assert len(program.variables) == 4
    for name, variable in program.variables.items():
        np.testing.assert_array_equal(variable, values.get(name, 0), err_msg=name)
    assert int(program.step) == 0
