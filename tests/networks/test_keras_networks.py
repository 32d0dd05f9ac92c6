"""Networks of Keras equal their conversions under every layout: outputs, gradients, updates and exported weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.training.averages import apply_update
from tests.networks import comparing
from tests.networks.small_networks import NETWORKS

# TensorFlow's 3D pools compute only in float32.
ONLY_FLOAT32 = {"unet"}


@pytest.fixture(autouse=True)
def default_dtype():
    yield
    comparing.use_dtype("float32")


def built(name, dtype="float32"):
    comparing.use_dtype(dtype)
    build, sizes = NETWORKS[name]
    model = build()
    comparing.randomize(model.variables)
    return model, sizes


@pytest.mark.mostly_slow(fast=0.15)
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("layout", comparing.LAYOUTS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_in_float64(name, layout, training):
    model, sizes = built(name, "float32" if name in ONLY_FLOAT32 else "float64")
    tolerance = 1e-4 if name in ONLY_FLOAT32 else 1e-9
    comparing.check_model(model, layout, training, tolerance, batch=2, **sizes)


@pytest.mark.parametrize("layout", ["whole", "split", "in turns"])
@pytest.mark.parametrize(("name", "classes"), [("residual", 5), ("spectral", 2)])
def test_training_and_export(name, classes, layout):
    """Three steps change the weights as in Keras, and the exported model computes what the program computes."""
    model, sizes = built(name, "float64")
    ours = keras.models.clone_model(model)
    ours.set_weights(model.get_weights())
    network = mi.networks.load(ours)
    specs = network.inputs(batch=3, **sizes)
    images = [comparing.arrays(specs, seed)["image"] for seed in range(3)]
    labels = [tf.one_hot([0, 1, seed], classes, dtype=tf.float64).numpy() for seed in range(3)]

    def step(image, label):
        y = network(training=True, image=image)
        loss = mi.mtf.reduce_mean(mi.mtf.square(y - mi.mtf.reshape(label, y.shape)))
        variables = [v.outputs[0] for v in loss.mesh.graph.trainable_variables]
        for variable, gradient in zip(variables, mi.mtf.gradients([loss], variables), strict=True):
            mi.mtf.assign_sub(variable, 0.1 * gradient)  # from the kernel that a spectral norm has divided
        return loss

    options = comparing.layout_of(layout, specs)
    program = mi.Program(step, specs | {"label": (f"batch:3,channels:{classes}", "float64")}, **options)
    losses = [program(image=x, label=y).numpy() for x, y in zip(images, labels, strict=True)]
    optimizer, wanted = keras.optimizers.SGD(0.1), []
    for x, y in zip(images, labels, strict=True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        wanted.append(loss.numpy())
    np.testing.assert_allclose(losses, wanted, 1e-9)
    assert network.export(program) is ours
    for mine, theirs in zip(ours.variables, model.variables, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), 1e-7, 1e-9)
    np.testing.assert_allclose(ours.predict(images[0], verbose=0), model.predict(images[0], verbose=0), 1e-9)


def test_a_task_is_trained(tmp_path):
    """`mi.jobs.train` trains a network under a layout as without one, and frozen weights stay."""
    model, _ = built("unet")
    network = mi.networks.load(model)

    def loss(outputs, labels):
        return mi.ops.weighted_cross_entropy(mi.mtf.log(outputs + 1e-6), labels, outputs.shape.dims[-1])

    class Data:
        def sizes(self, data_dir):
            return (8, 6, 4)

        def batches(self, data_dir, *, batch_size, sizes, seed, start_step):
            rng = np.random.default_rng(start_step)
            while True:
                image = rng.standard_normal((batch_size, *sizes, 1)).astype(np.float32)
                yield {"image": image, "labels": (image[..., 0] > 0).astype(np.int32)}

    before = {v.path: v.numpy() for v in model.variables}
    results = {}
    for name, layout in {"whole": "", "split": "x:rows,y:cols"}.items():
        mi.jobs.train(
            task=mi.networks.task(network, loss),
            data=mi.jobs.TrainingData(str(tmp_path), Data()),
            model_dir=str(tmp_path / name),
            batch_size=2,
            num_steps=3,
            optimizer=mi.training.optimizers.SGD(0.01),
            frozen="conv3d/*",
            layout=mi.Layout.parse("rows:2,cols:2", layout),
            progress=False,
        )
        program = mi.Program(network, network.inputs(x=8, y=6, z=4))
        assert mi.training.restoring.restore_run(str(tmp_path / name), program) == 3
        results[name] = {key: variable.numpy() for key, variable in program.variables.items()}
    for key, value in results["whole"].items():
        np.testing.assert_allclose(results["split"][key], value, 1e-3, 1e-4)
        is_equal = np.array_equal(value, before[key])
        assert is_equal == (key.startswith("conv3d/")), key


@pytest.mark.parametrize("value", [0, 3])
def test_a_spectral_norm_keeps_a_kernel_of_zeros(value):
    """Its quotient, which is not a number, is not taken."""
    model = keras.Sequential([keras.Input((6, 2)), keras.layers.SpectralNormalization(keras.layers.Conv1D(2, 3))])
    kernel, *_ = model.trainable_variables
    kernel.assign(value * np.ones(kernel.shape))
    network = mi.networks.load(model)
    specs = network.inputs(x=6)
    image = comparing.arrays(specs)["image"]
    program = mi.Program(lambda image: network(training=True, image=image), specs, "rows:2", "x:rows")
    np.testing.assert_allclose(program(image=image), model(image, training=True), 1e-5, 1e-6)
    for name, variable in zip(network.weights, model.variables, strict=True):
        np.testing.assert_allclose(np.ravel(program.variables[name]), np.ravel(variable), 1e-5, 1e-6)


@pytest.mark.parametrize("layout", ["whole", "split"])
def test_averages_follow_a_spectral_norm(layout):
    """The network divides the kernels and the optimizer then updates them; the averages have both."""
    model, sizes = built("spectral", "float64")
    before = [variable.numpy() for variable in model.trainable_variables]
    network = mi.networks.load(model)
    specs = network.inputs(batch=2, **sizes)

    def step(image):
        loss = mi.mtf.reduce_mean(mi.mtf.square(network(training=True, image=image)))
        variables = loss.mesh.graph.trainable_variables
        gradients = mi.mtf.gradients([loss], [variable.outputs[0] for variable in variables])
        apply_update(mi.training.optimizers.SGD(0.1), gradients, variables, 0.999)
        return loss

    program = mi.Program(step, specs, **comparing.layout_of(layout, specs))
    program(**comparing.arrays(specs))
    names = [name for name in program.variables if f"{name}/average" in program.variables]
    assert len(names) == len(before)
    for first, name in zip(before, names, strict=True):
        value, average = program.variables[name].numpy(), program.variables[f"{name}/average"].numpy()
        decay = 2 / 11  # of the first step
        np.testing.assert_allclose(average, decay * first.reshape(value.shape) + (1 - decay) * value, 1e-9)


@pytest.mark.parametrize("name", ["unet", "residual", "siamese"])
def test_batch_norms_in_training_are_one_operation(name):
    model, sizes = built(name)
    network = mi.networks.load(model)
    shapes = {
        key: tuple(int(dim.split(":")[1]) for dim in shape.split(","))
        for key, (shape, _) in network.inputs(batch=2, **sizes).items()
    }
    operations = network.graph(shapes, training=True).operations
    norms = sum("moving_mean" in variable.path for variable in model.variables)
    assert len(operations["BatchNormInTraining"]) == norms * len(shapes)
    assert not {"Mean", "SquaredDifference", "Rsqrt"} & {*operations}


def test_gathers_are_reported_with_their_layers():
    model, sizes = built("attention")
    network = mi.networks.load(model)
    changes = mi.Program(network, network.inputs(**sizes), "rows:2", "x:rows").changes
    assert len(changes) == 2
    assert all("multi_head_attention" in str(change) and "gathers x: slices of" in str(change) for change in changes)


def test_gathers_of_channels_are_reported_with_their_bytes():
    model, sizes = built("unet")
    network = mi.networks.load(model)
    changes = mi.Program(network, network.inputs(**sizes), "cols:2", "channels:cols").changes
    assert [(change.name.split("/")[0], change.gathered, change.nbytes) for change in changes] == [
        (f"{model.layers[-8].name}_1", ("channels",), 4 * 8 * 6 * 4 * 6),
        (f"{model.layers[-8].name}_1", ("channels",), 4 * 8 * 6 * 4 * 4),
        (f"{model.layers[-1].name}_1", ("channels",), 4 * 8 * 6 * 4 * 2),
    ]
