"""Training from the weights of another network: which variables are set, and when."""

import logging

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.deeplab import DeepLab
from mtf_imaging.models.resnet import ResNet, ResNetBackbone
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights
from mtf_imaging.training.checkpoints.weights_folder import write_weights
from mtf_imaging.training.optimizers import Adam
from mtf_imaging.training.step import training_step
from tests.training import linear

SHAPES = {"net/block0/filter": [2, 3], "net/block1/filter": [3], "head/classes/weights": [4]}
LAYOUTS = {
    "one": ("", "", "stacked"),
    "2": ("rows:2", "x:rows", "stacked"),
    "2 devices": ("rows:2", "x:rows", "placement"),
}


class Net:
    """A network that has variables of given shapes, and a dimension to split."""

    def __init__(self, shapes):
        self.shapes = shapes

    def inputs(self, batch_size, sizes=None, labels=True):
        return {"image": (f"batch:{batch_size},x:4", tf.float64)}

    def loss(self, image):
        total = mi.mtf.reduce_mean(mi.mtf.square(image))
        for name, shape in self.shapes.items():
            dims = [mi.mtf.Dimension(f"d{i}", size) for i, size in enumerate(shape)]
            initializer = tf.compat.v1.random_normal_initializer()
            args = {"dtype": tf.float64, "initializer": initializer}
            total += mi.mtf.reduce_sum(mi.mtf.get_variable(image.mesh, name, mi.mtf.Shape(dims), **args))
        return total, {}


def program(shapes, layout="one"):
    task = Net(shapes)
    mesh_shape, rules, mesh_impl = LAYOUTS[layout]
    step = training_step(task, Adam(0.1))
    return mi.Program(step, task.inputs(2), mesh_shape=mesh_shape, layout=rules, mesh_impl=mesh_impl)


def values(built):
    return {name: variable.numpy() for name, variable in built.variables.items()}


def slots(names):
    return {name for name in names if name.rpartition("/")[0] in names}


@pytest.fixture
def trained(tmp_path):
    """The folder of a run of two steps, and the values of its variables."""
    built = program(SHAPES)
    for _ in range(2):
        built(image=np.ones((2, 4)))
    Checkpoints(tmp_path / "run", built).save()
    return tmp_path / "run", values(built)


def imported(folder, shapes, title="ResNet-50"):
    """Writes a folder of imported weights; returns their values."""
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    write_weights(folder, weights, {"title": title})
    return weights


@pytest.mark.parametrize("layout", LAYOUTS)
def test_variables_of_both_networks_are_set_under_every_layout(trained, layout, caplog):
    folder, weights = trained
    built = program({"net/block0/filter": [2, 3], "net/block1/filter": [3], "decoder/filter": [2]}, layout)
    before = values(built)
    with caplog.at_level(logging.INFO):
        InitialWeights(folder).apply(built)
    after = values(built)
    common = {"net/block0/filter", "net/block1/filter"}
    assert slots(weights)
    assert after.keys() > common
    for name in after:
        np.testing.assert_array_equal(after[name], (weights if name in common else before)[name], err_msg=name)
    assert int(built.step) == 0
    assert (
        f"initial weights: 2 of 3 variables from {folder}/ckpt-2; 1 variable, such as 'decoder/filter', begin as "
        "usual; 1 variable of the weights, such as 'head/classes/weights', have no place in the network" in caplog.text
    )


def test_the_optimizer_begins_without_a_memory(trained):
    """Adam's slots of the run are not copied, although the optimizer of the network has slots of the same names."""
    folder, weights = trained
    built = program(SHAPES)
    InitialWeights(folder).apply(built)
    after = values(built)
    assert slots(after) == slots(weights)
    for name in slots(after):
        assert np.abs(weights[name]).max() > 0
        np.testing.assert_array_equal(after[name], 0, err_msg=name)


def test_the_path_of_a_checkpoint_selects_it(tmp_path):
    built = program(SHAPES)
    checkpoints, saved = Checkpoints(tmp_path, built), []
    for _ in range(2):
        built(image=np.ones((2, 4)))
        checkpoints.save()
        saved.append(values(built)["net/block1/filter"])
    for path, wanted in {"ckpt-1": saved[0], "ckpt-1.index": saved[0], "": saved[1]}.items():
        other = program(SHAPES)
        InitialWeights(tmp_path / path).apply(other)
        np.testing.assert_array_equal(other.variables["net/block1/filter"], wanted)


def test_weights_of_another_dtype_are_converted(tmp_path):
    weights = imported(tmp_path / "weights", {"net/block0/filter": [2, 3]})
    built = program({"net/block0/filter": [2, 3]})
    InitialWeights(tmp_path / "weights").apply(built)
    np.testing.assert_array_equal(built.variables["net/block0/filter"], weights["net/block0/filter"].astype(np.float64))


FAULTS = {
    "other shape": (SHAPES | {"head/classes/weights": [5]},
                    r"'head/classes/weights' has shape \[4\] in the weights, but \[5\] in the network"),
    "more blocks": ({f"net/block{i}/filter": shape for i, shape in enumerate([[2, 3], [3], [3], [3]])},
                    "the weights have 'net/block1' as the last 'net/block', but the network has 'net/block3'"),
    "fewer blocks": ({"net/block0/filter": [2, 3]},
                     "the weights have 'net/block1' as the last 'net/block', but the network has 'net/block0'"),
    "nothing": ({"other/filter": [3]},
                r"no name is in both; the weights have \['head/classes/weights', 'net/block0/filter', "),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_weights_of_another_network_are_refused(trained, name):
    shapes, message = FAULTS[name]
    built = program(shapes)
    before = values(built)
    for call in (InitialWeights(trained[0]).check, InitialWeights(trained[0]).apply):
        with pytest.raises(mi.CheckpointError, match=message) as error:
            call(built)
        assert {"initial_weights", "initial_weights_except"} == {*error.value.settings}
    for key, value in values(built).items():
        np.testing.assert_array_equal(value, before[key])


def test_excluded_scopes_begin_as_usual(trained):
    folder, weights = trained
    built = program(SHAPES | {"head/classes/weights": [5]})
    before = values(built)
    InitialWeights(folder, ("head/classes",)).apply(built)
    np.testing.assert_array_equal(built.variables["net/block1/filter"], weights["net/block1/filter"])
    np.testing.assert_array_equal(built.variables["head/classes/weights"], before["head/classes/weights"])
    with pytest.raises(mi.ConfigError, match=r"in the scope 'had/classes'\. Did you mean 'head/classes'\?"):
        InitialWeights(folder, ("had/classes",)).apply(built)


def test_all_imported_weights_need_a_place(tmp_path):
    """Unlike a run, imported weights have no parts that another network may lack."""
    imported(tmp_path / "weights", {"net/block0/filter": [2, 3], "net/stem/filter": [2]}, "ResNet-50 with a stem")
    message = r"ckpt-0 \(ResNet-50 with a stem\): .*'net/stem/filter' \[2\] is missing from the network\. Fix: "
    with pytest.raises(mi.CheckpointError, match=message):
        InitialWeights(tmp_path / "weights").check(program({"net/block0/filter": [2, 3]}))
    InitialWeights(tmp_path / "weights", ("net/stem",)).check(program({"net/block0/filter": [2, 3]}))


def test_missing_damaged_and_foreign_checkpoints_are_refused(trained, tmp_path):
    (tmp_path / "empty").mkdir()
    for path, message in {
        "none": "none: there is no such checkpoint. Fix: ",
        "run/ckpt-7": "ckpt-7: there is no such checkpoint. Fix: ",
        "empty": "empty: this folder holds no checkpoint. Fix: ",
    }.items():
        with pytest.raises(mi.CheckpointError, match=message):
            InitialWeights(tmp_path / path).check_exists()
    InitialWeights(trained[0]).check_exists()
    tf.train.Checkpoint(v=tf.Variable(1.0)).write(str(tmp_path / "foreign"))
    with pytest.raises(mi.CheckpointError, match=r"has no variables of this package, but \[.*\]\. Fix: "):
        InitialWeights(tmp_path / "foreign").check_exists()
    (data,) = trained[0].glob("*.data*")
    data.write_bytes(b"")
    with pytest.raises(mi.CheckpointError, match="this checkpoint is damaged: "):
        InitialWeights(trained[0]).apply(program(SHAPES))
    (tmp_path / "run/ckpt-2.index").write_bytes(b"damaged")
    with pytest.raises(mi.CheckpointError, match="this checkpoint is damaged: "):
        InitialWeights(trained[0]).check_exists()


@pytest.mark.slow
def test_a_classifier_gives_its_backbone_to_a_segmentation_network(tmp_path, caplog):
    backbone = {"blocks": (1, 1), "base_filters": 4, "bottleneck": True}
    classifier = ResNet(classes=3, **backbone)
    decoder = {"filters": 4, "low_level_filters": 4, "decoder_filters": 4, "rates": (1,), "classes": 2}
    segmentation = DeepLab(backbone=ResNetBackbone(**backbone, output_stride=8), **decoder)

    def build(network):
        def call(image):
            return network(image, is_training=False)

        return mi.Program(call, {"image": ("batch:1,height:16,width:16,channels:3", tf.float32)}, seed=3)

    source, target = build(classifier), build(segmentation)
    for variable in source.variables.values():
        variable.assign_add(tf.fill(variable.shape, 0.125))
    Checkpoints(tmp_path, source).save()
    caplog.set_level(logging.INFO)
    InitialWeights(tmp_path).apply(target)
    shared = [name for name in target.variables if name.startswith("resnet/")]
    assert len(shared) == 5 * 9  # a convolution of the stem, and four of each block
    for name in shared:
        np.testing.assert_array_equal(target.variables[name], source.variables[name], err_msg=name)
    rest = len(target.variables) - len(shared)
    assert f"initial weights: 45 of {len(target.variables)} variables" in caplog.text
    assert f"; {rest} variables, such as 'deeplab/" in caplog.text
    assert "; 2 variables of the weights, such as 'resnet/classes/bias', have no place in the network" in caplog.text


class LinearData:
    """The batches of the linear task as a data set."""

    def sizes(self, data_dir):
        return (8,)

    def batches(self, data_dir, *, batch_size, sizes, seed, start_step):
        return linear.batches(start_step)


class Task(linear.Linear):
    """The linear task with the methods that jobs need."""

    def inputs(self, batch_size, sizes=None, dtype=tf.float64, labels=True):
        return super().inputs(batch_size, sizes, labels)

    def predict(self, image):
        return image


def train(model_dir, num_steps, **options):
    common = {"task": Task(), "optimizer": Adam(0.1), "dtype": "float64", "progress": False, "batch_size": 2}
    data = mi.jobs.TrainingData("none", LinearData())
    return mi.jobs.train(**common, **options, data=data, model_dir=model_dir, num_steps=num_steps, checkpoint_every=1)


def final_weights(model_dir):
    built = linear.program(Adam(0.1))
    InitialWeights(model_dir).apply(built)
    return built.variables["linear/weights"].numpy()


@pytest.mark.slow
def test_a_run_starts_from_weights_once(tmp_path, caplog):
    train(tmp_path / "first", 3, seed=1)
    first = tmp_path / "first"
    caplog.set_level(logging.INFO)
    train(tmp_path / "second", 4, initial_weights=first)
    assert "initial weights: 1 of 1 variables" in caplog.text
    caplog.clear()
    train(tmp_path / "resumed", 2, initial_weights=str(first))
    assert "initial weights" in caplog.text
    caplog.clear()
    train(tmp_path / "resumed", 4, initial_weights=tmp_path / "deleted since")  # has no effect
    assert "initial weights" not in caplog.text
    np.testing.assert_array_equal(final_weights(tmp_path / "resumed"), final_weights(tmp_path / "second"))
    # The same steps in plain NumPy: one step of Adam from the weights of the first run, whose moments begin at 0.
    train(tmp_path / "one", 1, initial_weights=first)
    batch, weights = next(linear.batches(0)), final_weights(first)
    gradient = batch["image"].T @ (batch["image"] @ weights - batch["target"])
    np.testing.assert_allclose(final_weights(tmp_path / "one"), weights - 0.1 * np.sign(gradient), rtol=1e-5)


def test_mistakes_are_reported_before_the_first_step(tmp_path):
    with pytest.raises(mi.CheckpointError, match="none: there is no such checkpoint"):
        train(tmp_path / "run", 1, initial_weights=tmp_path / "none")
    with pytest.raises(mi.ConfigError, match="initial_weights_except = 'linear' has no effect without initial_weights"):
        train(tmp_path / "run", 1, initial_weights_except="linear")
    imported(tmp_path / "weights", {"linear/weights": [7]})
    for dry_run in (True, False):
        with pytest.raises(mi.CheckpointError, match=r"has shape \[7\] in the weights, but \[8\] in the network"):
            train(tmp_path / "run", 1, initial_weights=tmp_path / "weights", dry_run=dry_run)
    assert not [*(tmp_path / "run").glob("ckpt*")]
