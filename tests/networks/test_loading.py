"""Networks from files equal the originals, run none of their code, and errors name all faults."""

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import mtf_imaging as mi
from tests.networks import comparing

V1 = tf.compat.v1


def sequential(library):
    layers = library.layers
    model = library.Sequential(
        [
            library.Input((None, None, 1)),
            layers.Conv2D(3, 3, padding="same"),
            layers.BatchNormalization(),
            layers.Dropout(0.2),
            layers.UpSampling2D(),
        ]
    )
    comparing.randomize(model.variables)
    return model


class Module(tf.Module):
    """A network of TensorFlow without Keras."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.ones([3, 3, 1, 2]), name="kernel")

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 1], tf.float32)])
    def __call__(self, x):
        return tf.nn.relu(tf.nn.conv2d(x, self.kernel, 1, "SAME"))


def v1_network(path, frozen):
    """Saves a network of TensorFlow 1, and returns its function."""
    with tf.Graph().as_default() as graph, V1.Session() as session:
        x = V1.placeholder(tf.float32, [None, None, None, 1], name="x")
        kernel = V1.get_variable("conv/kernel", [3, 3, 1, 4], use_resource=False)
        bias = V1.get_variable("conv/bias", [4], use_resource=True, initializer=V1.ones_initializer())
        y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "SAME"), bias), name="y")
        session.run(V1.global_variables_initializer())
        if frozen:
            definition = V1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
            path.write_bytes(definition.SerializeToString())
        else:
            inputs, outputs = ({"x": V1.saved_model.build_tensor_info(x)}, {"y": V1.saved_model.build_tensor_info(y)})
            signature = V1.saved_model.build_signature_def(inputs, outputs, "predict")
            builder = V1.saved_model.Builder(str(path))
            builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
            builder.save()
        values = session.run([kernel, bias])
    return lambda image: tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(image, values[0], 1, "SAME"), values[1]))


def keras_file(name, library):
    def save(folder):
        model = sequential(library)
        model.save(folder / name)
        return folder / name, model

    return save


def exported(folder):
    model = sequential(keras)
    model.export(folder / "exported", verbose=False)
    return folder / "exported", model


def saved_module(folder):
    module = Module()
    tf.saved_model.save(module, folder / "module")
    return folder / "module", module


FILES = {
    "keras": keras_file("network.keras", keras),
    "h5": keras_file("network.h5", keras),
    "h5 of Keras 2": keras_file("network.h5", tf_keras),
    "SavedModel of Keras 2": keras_file("network", tf_keras),
    "SavedModel of Keras 3": exported,
    "SavedModel of a module": saved_module,
    "SavedModel of TensorFlow 1": lambda folder: (folder / "v1", v1_network(folder / "v1", False)),
    "frozen graph": lambda folder: (folder / "v1.pb", v1_network(folder / "v1.pb", True)),
}


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
@pytest.mark.parametrize("name", FILES)
def test_files(name, tmp_path):
    path, original = FILES[name](tmp_path)
    network = mi.networks.load(path)
    specs = network.inputs(x=8, y=6)
    image = comparing.arrays(specs)["image"]
    program = mi.Program(network, specs, "rows:2", "x:rows")
    np.testing.assert_allclose(program(image=image), original(image), rtol=1e-5, atol=1e-6)
    assert (
        len(program.variables)
        == len(network.weights)
        == {"SavedModel of a module": 1}.get(name, 2 if "1" in name or name == "frozen graph" else 6)
    )
    assert not any(name.endswith(("_1", ":0", "/read")) for name in network.weights)


def test_a_keras_2_model():
    model = sequential(tf_keras)
    for layout in comparing.LAYOUTS:
        comparing.check_model(model, layout, batch=2, x=6, y=5)
    assert mi.networks.load(model).weights[0] == model.variables[0].name.removesuffix(":0")


def test_tables_of_a_keras_2_model():
    """Embeddings, and integer weights, which are positions and not trained."""

    class Shuffle(tf_keras.layers.Layer):
        def build(self, shape):
            order = np.random.default_rng(0).permutation(shape[1])
            self.order = tf.Variable(order, trainable=False, name="order")
            self.table = tf_keras.layers.Embedding(shape[1], shape[3])

        def call(self, x):
            return tf.gather(x, self.order, axis=1) * self.table(tf.range(x.shape[1]))[:, None]

    image = tf_keras.Input((6, 5, 3))
    model = tf_keras.Model(image, Shuffle()(image))
    for layout in comparing.LAYOUTS:
        comparing.check_model(model, layout)


def test_a_function_and_its_export():
    module = Module()
    network = mi.networks.load(module.__call__)
    comparing.check(network, module, {"kernel": module.kernel}, network.inputs(x=8, y=6), "split")
    program = mi.Program(network, network.inputs(x=8, y=6))
    program.variables["kernel"].assign(2 * program.variables["kernel"])
    network.export(program)
    np.testing.assert_array_equal(module.kernel, np.full([3, 3, 1, 2], 2))


def test_sizes_of_another_volume():
    """A network with fixed sizes computes other sizes, if its operations allow."""
    image = keras.Input((8, 8, 1))
    fixed = keras.Model(image, keras.layers.Conv2D(2, 3, padding="same")(image))
    free = keras.Input((None, None, 1))
    same = keras.Model(free, fixed.layers[-1](free))
    network = mi.networks.load(fixed)
    assert network.inputs()["image"][0] == "batch:1,x:8,y:8,channels:1"
    specs = network.inputs(height=12, width=10)
    value = comparing.arrays(specs)["image"]
    program = mi.Program(network, specs, "rows:2", "height:rows")
    np.testing.assert_allclose(program(image=value), same(value), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_lambda_layers_of_files_are_refused(suffix, tmp_path, monkeypatch):
    image, path = keras.Input((4, 4, 1)), tmp_path / f"network{suffix}"
    keras.Model(image, keras.layers.Lambda(lambda x: x + 1)(image)).save(path)
    if suffix == ".h5":  # Keras 3.5 does not check such files
        monkeypatch.setattr(
            keras.models, "load_model", lambda *args, **options: pytest.fail("Keras would run the code")
        )
    with pytest.raises(mi.ConfigError, match=r"cannot load this model: .*[Ll]ambda.*Fix: if you trust the file"):
        mi.networks.load(path)


def test_a_lambda_layer_of_a_model_works():
    image = keras.Input((4, 4, 1))
    comparing.check_model(keras.Model(image, keras.layers.Lambda(lambda x: tf.exp(x) + 1)(image)))


def test_files_that_refer_to_other_files_are_refused(tmp_path):
    with h5py.File(tmp_path / "network.h5", "w") as file:
        file["layer"] = h5py.ExternalLink("/etc/hostname", "/")
    with pytest.raises(mi.errors.CheckpointError, match="link to other data"):
        mi.networks.load(tmp_path / "network.h5")


@pytest.mark.parametrize("suffix", [".keras", ".h5", ".pb", ""])
def test_missing_and_damaged_files(suffix, tmp_path):
    path = tmp_path / f"network{suffix}"
    with pytest.raises(mi.DataError, match=r"there is no such file. Fix: pass the path"):
        mi.networks.load(path)
    path.write_bytes(b"\x99 not a network")
    with pytest.raises(mi.errors.CheckpointError, match=r"network.* Fix: "):
        mi.networks.load(path)


def test_other_objects_are_refused():
    with pytest.raises(mi.ConfigError, match=r"neither a Keras model, nor a tf.function, nor a path"):
        mi.networks.load(lambda x: x)
    with pytest.raises(mi.ConfigError, match=r"the shapes of its inputs are unknown. Fix: .*signature="):
        mi.networks.load(tf.function(lambda x: x))


def test_all_unknown_operations_are_named():
    @tf.function(input_signature=[tf.TensorSpec([1, None, None, 2], tf.float32)])
    def function(image):
        y = tf.signal.rfft2d(tf.transpose(image, [0, 3, 1, 2]))
        image = tf.while_loop(lambda x: tf.reduce_max(x) < 9, lambda x: (tf.math.bessel_i0(2 * x),), [image])[0]
        return tf.sort(image) + tf.math.real(y)[0, 0, 0, 0] + tf.linalg.det(tf.eye(2) * image[0, 0, 0, 0])

    network = mi.networks.load(function)
    with pytest.raises(mi.NotSupportedError) as error:
        network.inputs(x=4, y=4)
    message = str(error.value)
    assert all(name in message for name in ("RFFT2D", "StatelessWhile", "TopKV2", "MatrixDeterminant", "Fix: replace"))


def test_all_unsupported_nodes_are_named():
    """Nodes whose operations are known, but not with these inputs, are found before any device is used."""

    @tf.function(input_signature=[tf.TensorSpec([2, None, None, 2], tf.float32)])
    def function(image):
        count = tf.cast(tf.reduce_max(image), tf.int32)
        with tf.name_scope("by_value"):
            first = tf.reshape(image, [count, -1])
        with tf.name_scope("rows"):
            second = tf.gather(image, tf.cast(image[..., 0], tf.int32), axis=2, batch_dims=2)
        with tf.name_scope("grouped"):
            third = tf.raw_ops.Conv2DBackpropInput(
                input_sizes=[2, 4, 4, 4],
                filter=tf.ones([3, 3, 2, 2]),
                out_backprop=image,
                strides=[1] * 4,
                padding="SAME",
            )
        with tf.name_scope("quotient"):
            return tf.reduce_sum(first) + second + tf.reduce_sum(third) + image / 0.0

    network = mi.networks.load(function)
    with pytest.raises(mi.NotSupportedError) as error:
        mi.Program(network, network.inputs(batch=2, x=4, y=4))
    message = str(error.value)
    assert "4 of its operations cannot be converted" in message
    assert "Conv2DBackpropInput 'grouped/Conv2DBackpropInput' has groups. Fix: use a transposed convolution" in message
    assert "RealDiv 'quotient/truediv': float division by zero" in message
    assert "Reshape 'by_value/Reshape' has sizes that depend on the values of a tensor" in message
    assert "GatherV2 'rows/" in message


def test_branches_that_depend_on_values_are_limited():
    """Both branches of tf.cond are computed, so they assign nothing, and have the same shape."""
    counter = tf.Variable(1.0)

    @tf.function(input_signature=[tf.TensorSpec([1, None, None, 2], tf.float32)])
    def function(image):
        tf.cond(image[0, 0, 0, 0] > 0, lambda: counter.assign_add(1.0), lambda: counter.read_value())
        part = tf.cond(image[0, 0, 0, 0] > 0, lambda: image[:, :2], lambda: image[:, :3])
        return tf.reduce_sum(part) * counter

    network = mi.networks.load(function)
    with pytest.raises(mi.NotSupportedError) as error:
        mi.Program(network, network.inputs(x=4, y=4))
    message = str(error.value)
    assert "assigns the variable 'Variable' in a branch that depends on the values of a tensor" in message
    assert "is float32 [1, 2, 4, 2] or float32 [1, 3, 4, 2], as the values of a tensor decide" in message


def test_sizes_that_do_not_fit_are_refused():
    network = mi.networks.load(sequential(keras))
    with pytest.raises(mi.ShapeError, match=r"sizes for x were given, but its inputs have 2 axes.*Fix: give one size"):
        network.inputs(x=4)
    with pytest.raises(mi.ShapeError, match=r"no fixed size of x and y.*Fix: call network.inputs\(x=64, y=64\)"):
        network.inputs()
    with pytest.raises(mi.ConfigError, match=r"it has the inputs image, but the call has picture"):
        mi.Program(lambda picture: network(picture=picture), {"picture": "batch:1,x:4,y:4,channels:1"})


def test_sizes_that_a_layer_does_not_support_are_refused():
    image = keras.Input((8, 8, 1))
    network = mi.networks.load(keras.Model(image, keras.layers.Dense(2)(keras.layers.Flatten()(image))))
    network.inputs()
    with pytest.raises(mi.ShapeError, match=r"Keras cannot compute it for image \[1, 12, 8, 1\].*Fix: use the sizes"):
        network.inputs(x=12, y=8)


def test_sizes_that_a_graph_does_not_support_are_refused(tmp_path):
    """A file was traced without sizes, so the nodes that do not fit them are found when it is converted."""

    class Fixed(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1, None, None, 1], tf.float32)])
        def __call__(self, x):
            with tf.name_scope("head"):
                logits = tf.reshape(x, [1, -1]) @ tf.ones([64, 2])
            with tf.name_scope("decoder"):
                y = tf.repeat(tf.repeat(tf.nn.avg_pool2d(x, 2, 2, "VALID"), 2, 1), 2, 2)
                return {"logits": logits, "image": tf.concat([x, y], 3), "half": tf.reshape(x, [1, 8, 8])}

    tf.saved_model.save(Fixed(), tmp_path / "fixed")
    network = mi.networks.load(tmp_path / "fixed")
    mi.Program(network, network.inputs(x=8, y=8))
    with pytest.raises(mi.NotSupportedError) as error:
        mi.Program(network, network.inputs(x=9, y=8))
    message = str(error.value)
    assert "3 of its operations cannot be converted" in message
    assert all(name in message for name in ("head/", "decoder/", "has another number of elements"))


def test_a_frozen_graph_that_was_saved_for_training(tmp_path):
    """A boolean placeholder is the argument `training`, and the default of a placeholder may be a pipeline."""
    raw = tf.raw_ops
    with tf.Graph().as_default() as graph:
        pipeline = raw.IteratorGetNext(
            iterator=raw.IteratorV2(
                shared_name="", container="", output_types=[tf.float32], output_shapes=[[None, 8, 8, 1]]
            ),
            output_types=[tf.float32],
            output_shapes=[[None, 8, 8, 1]],
        )[0]
        image = V1.placeholder_with_default(pipeline, [None, 8, 8, 1], name="image")
        training = V1.placeholder_with_default(True, [], name="training")
        off, on = raw.Switch(data=image, pred=training)
        y = raw.Merge(inputs=[off * 2.0, tf.nn.dropout(on, 0.5)])[0]
        probability = tf.sigmoid(y, name="probability")
        tf.greater(probability, V1.placeholder(tf.float32, name="threshold"))
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(mi.ConfigError, match=r"'threshold' has an unknown number of axes.*choose outputs"):
        mi.networks.load(tmp_path / "graph.pb")
    with pytest.raises(mi.ConfigError, match=r"has no node 'probabilities'. Did you mean 'probability'"):
        mi.networks.load(tmp_path / "graph.pb", outputs=["probabilities"])
    network = mi.networks.load(tmp_path / "graph.pb", outputs=["probability"])
    specs = network.inputs(x=6, y=4)
    value = comparing.arrays(specs)["image"]
    program = mi.Program(network, specs, "rows:2", "x:rows")
    np.testing.assert_allclose(program(image=value), tf.sigmoid(2 * value), rtol=1e-5)
    dropped = mi.Program(lambda image: network(image=image, training=True), specs)(image=value).numpy()
    assert {*np.unique(np.isclose(dropped, tf.sigmoid(2 * value)))} == {True, False}
    assert 0.2 < np.mean(dropped == 0.5) < 0.8
