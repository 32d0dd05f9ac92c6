"""Weights that are imported from checkpoints of other programs compute the features that those programs compute."""

import functools
import re

import h5py
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.backbones.weights import Structure
from mtf_imaging.models.resnet import WEIGHT_FORMATS, ResNetBackbone
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights
from tests.models import reference_checkpoints as reference
from tests.models.backbones import trace_features
from tests.training import torch_files

SIZE = (32, 44)  # even, so that paddings differ
BLOCKS = (1, 2)
# name -> (the network, settings of the backbone)
FORMATS = {
    "tpu": (functools.partial(reference.tpu, blocks=BLOCKS), {}),
    "tpu detector": (
        functools.partial(reference.tpu, blocks=BLOCKS, scope="resnet50/", epsilon=1e-4),
        {"norm_epsilon": 1e-4},
    ),
    "tf_slim": (functools.partial(reference.tf_slim, blocks=BLOCKS), {}),
    "tf_slim beta": (functools.partial(reference.tf_slim, blocks=BLOCKS, beta=True), {"stem": "v1-beta"}),
    # With one stage, the strides of TF-Slim are those of this package.
    "tf_slim strides": (functools.partial(reference.tf_slim, blocks=(3,), first_strides=False), {"blocks": (3,)}),
    "tf_slim in a detector": (
        functools.partial(reference.tf_slim, blocks=BLOCKS, scope="FirstStageFeatureExtractor/resnet_v1_101/"),
        {},
    ),
    "tf_vision": (functools.partial(reference.tf_vision, blocks=BLOCKS), {"padding": "same"}),
    "torchvision": (functools.partial(reference.torchvision, blocks=BLOCKS), {"pool_padding": "fixed"}),
    "torchvision basic": (
        functools.partial(reference.torchvision, blocks=BLOCKS, bottleneck=False),
        {"bottleneck": False, "pool_padding": "fixed"},
    ),
    "torchvision detector": (
        functools.partial(reference.torchvision, blocks=BLOCKS, prefix="backbone.body."),
        {"pool_padding": "fixed"},
    ),
    "keras": (
        functools.partial(reference.keras_applications, blocks=BLOCKS),
        {"pool_padding": "fixed", "strided_conv": "1x1"},
    ),
    "tf_vision classifier": (
        functools.partial(reference.tf_vision, blocks=BLOCKS, prefix="model/layer_with_weights-0/"),
        {"padding": "same"},
    ),
}
LAYOUTS = {"one": ("", ""), "2x2": ("rows:2,cols:2", "height:rows,width:cols")}


def image():
    return np.random.default_rng(1).standard_normal((1, *SIZE, 3)).astype(np.float32)


def do_import(tmp_path, arrays, **options):
    path = write(tmp_path, arrays)
    return mi.jobs.import_weights(checkpoint=path, output_dir=tmp_path / "weights", formats=WEIGHT_FORMATS, **options)


def write(tmp_path, arrays):
    """Writes variables to a file of the program whose names they have. Returns its path."""
    if any(name.endswith(".weight") for name in arrays):
        return torch_files.write(tmp_path / "model.pth", {name: torch_files.Tensor(x) for name, x in arrays.items()})
    if "conv1_conv/kernel" not in arrays:
        return reference.write(tmp_path / "model.ckpt-112603", arrays)
    with h5py.File(tmp_path / "model.h5", "w") as file:
        for name, value in arrays.items():
            file[f"{name.partition('/')[0]}/{name}:0"] = value
    return tmp_path / "model.h5"


def program(backbone, layout="one"):
    def fn(image):
        return {str(i): y for i, y in enumerate(backbone.features(image, is_training=False))}

    shape = f"batch:1,height:{SIZE[0]},width:{SIZE[1]},channels:3"
    return mi.Program(fn, {"image": (shape, tf.float32)}, *LAYOUTS[layout], mesh_impl="stacked")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layout"), [*((name, "one") for name in FORMATS), ("tpu", "2x2")], ids=lambda value: value
)
def test_the_features_are_those_of_the_reference(name, layout, tmp_path):
    network, settings = FORMATS[name]
    arrays, features = network(image(), filters=4)
    imported = do_import(tmp_path, arrays)
    assert imported.file_format == name.split()[0]
    wanted = {"blocks": BLOCKS, "base_filters": 4} | settings
    assert imported.settings.items() >= wanted.items()
    backbone = ResNetBackbone(**imported.settings)
    built = program(backbone, layout)
    InitialWeights(tmp_path / "weights").apply(built)
    got = built(image=image())
    for i, feature in enumerate(features):
        scale = np.abs(feature).max()
        np.testing.assert_allclose(got[str(i)], feature, rtol=0, atol=1e-5 * scale, err_msg=f"feature {i}")
    assert imported.num_variables == len(built.variables)


@pytest.mark.parametrize(
    ("structure", "title"),
    [
        (Structure((3, 4, 6, 3)), "ResNet-50"),
        (Structure((3, 4, 23, 3)), "ResNet-101"),
        (Structure((3, 8, 36, 3)), "ResNet-152"),
        (Structure((3, 4, 23, 3), stem="v1-beta"), "ResNet-101 with the stem v1-beta"),
        (Structure((2, 2, 2, 2), bottleneck=False), "ResNet-18"),
        (Structure((3, 4, 6, 3), bottleneck=False), "ResNet-34"),
    ],
)
def test_the_variables_of_a_structure_are_those_of_the_backbone(structure, title):
    graph = trace_features(ResNetBackbone(**structure.settings)).graph
    assert structure.variables() == {v.name: tuple(v.shape.to_integer_list) for v in graph.all_variables}
    assert structure.title == title


def test_a_resnet_101_has_520_variables_in_each_format():
    """104 convolutions, each with a kernel and the four variables of a norm."""
    assert len(Structure((3, 4, 23, 3)).variables()) == 520
    shapes = {}
    for number, conv in enumerate(Structure((3, 4, 23, 3)).convs()):
        end = f"_{number}" if number else ""
        shapes[f"resnet101/conv2d{end}/kernel"] = (conv.kernel_size, conv.kernel_size, conv.inputs, conv.outputs)
        shapes |= {f"resnet101/batch_normalization{end}/{name}": (conv.outputs,) for name in reference.NORM}
    (tpu,) = (one for one in WEIGHT_FORMATS if one.name == "tpu")
    table = tpu.table(shapes)
    assert table.title == "ResNet-101"
    assert {*table.names.values()} == {*shapes}
    assert all(shapes[own] == table.shapes[name] for name, own in table.names.items())


def test_all_that_is_not_imported_is_reported(tmp_path):
    arrays, _ = reference.tpu(image(), (1,), 4)
    imported = do_import(tmp_path, arrays)
    assert imported.slots == ("conv2d/kernel/Momentum",)
    assert imported.others == ("dense/bias", "dense/kernel", "global_step")
    other = tmp_path / "keras"
    other.mkdir()
    imported = do_import(other, reference.tf_vision(image(), (1,), 4)[0])
    assert len(imported.slots) == 1
    assert imported.others == (f"model/layer_with_weights-1/bias{reference.ENDING}",)


def test_checkpoints_of_savers_and_folders_are_read(tmp_path):
    arrays, _ = reference.tf_slim(image(), (1,), 4)
    for number, version in enumerate((tf.compat.v1.train.SaverDef.V1, tf.compat.v1.train.SaverDef.V2)):
        folder = tmp_path / f"saved{number}"
        folder.mkdir()
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            for name, value in arrays.items():
                tf.compat.v1.get_variable(name, initializer=value)
            session.run(tf.compat.v1.global_variables_initializer())
            path = tf.compat.v1.train.Saver(write_version=version).save(session, str(folder / "resnet_v1_50.ckpt"))
        for checkpoint in (path, folder):
            options = {"output_dir": tmp_path / "weights", "formats": WEIGHT_FORMATS}
            assert mi.jobs.import_weights(checkpoint=checkpoint, **options).num_variables == 5 * 5


def slim(**changes):
    return reference.tf_slim(image(), (1, 2), 4, **changes)[0]


def tpu():
    return reference.tpu(image(), (1, 2), 4)[0]


def without(arrays, name):
    assert name in arrays
    return {own: value for own, value in arrays.items() if own != name}


def torchvision(**changes):
    return reference.torchvision(image(), (1, 2), 4, **changes)[0]


def keras():
    return reference.keras_applications(image(), (1, 2), 4)[0]


UNIT = "resnet_v1_50/block2/unit_1/bottleneck_v1/conv2"
FAULTS = [
    (lambda: without(slim(), f"{UNIT}/weights"), rf"'{UNIT}/weights' is missing, which is "
     r"'resnet/stage1/block0/conv1/filter' \[3, 3, 8, 8\]"),
    (lambda: slim() | {f"{UNIT}/weights": np.zeros((3, 3, 4, 8), np.float32)},
     rf"'{UNIT}/weights' has shape \[3, 3, 4, 8\], but 'resnet/stage1/block0/conv1/filter' has \[3, 3, 8, 8\]"),
    (lambda: {name.replace("bottleneck_v1", "bottleneck_v2"): value for name, value in slim().items()},
     "bottleneck_v2.*belongs to ResNet v2"),
    (lambda: slim() | slim(scope="other/"), "2 networks of TF-Slim, with the prefixes 'other/', 'resnet_v1_50/'"),
    (lambda: without(tpu(), "conv2d_4/kernel"), "'conv2d_4/kernel' is missing from the checkpoint"),
    (lambda: without(tpu(), "batch_normalization_11/gamma"),
     "has 12 convolutions, the last of them 'conv2d_11/kernel', but 11 norms"),
    (lambda: tpu() | {"conv2d/kernel": np.zeros((3, 3, 3, 4), np.float32)}, "a ResNet has a 7 x 7 kernel"),
    (lambda: tpu() | {"conv2d_3/kernel": np.zeros((1, 1, 4, 4), np.float32)},
     "'conv2d_1/kernel' .* does not begin a block"),
    (lambda: tpu() | {"conv2d_3/kernel": np.full((3, 3, 4, 4), np.nan, np.float32)}, "'conv2d_3/kernel' is not finite"),
    (lambda: tpu() | {"conv2d_3/kernel": np.ones((3, 3, 4, 4), np.complex64)},
     "'conv2d_3/kernel' has the dtype complex64, not one of real numbers"),
    (lambda: {"w": np.zeros(3, np.float32)},
     "has the variables 'w', which are not names of a known format: tensorflow/tpu"),
    (lambda: torchvision() | torchvision(prefix="other."), "2 networks of torchvision, with the pref"),
    (lambda: torchvision() | {"layer1.0.conv2.weight": np.zeros((4, 1, 3, 3), np.float32)},
     r"'layer1.0.conv2.weight' has shape \[4, 1, 3, 3\], but a ResNet with a stem of 4 filters has 4 inputs"),
    (lambda: without(torchvision(), "conv1.weight"), "the stem is not a 7 x 7 convolution 'conv1.weight'"),
    (lambda: without(torchvision(), "layer2.1.bn2.running_var"), "'layer2.1.bn2.running_var' is missing, which is "),
    (lambda: without(keras(), "conv2_block1_3_conv/bias"), "'conv2_block1_3_conv/bias' is missing, which is "),
    (lambda: keras() | {"conv3_block1_2_conv/kernel": np.zeros((3, 3, 8, 4), np.float32)},
     r"'conv3_block1_2_conv/kernel' has shape \[3, 3, 8, 4\], but 'resnet/stage1/block0/conv1/filter' has \["),
    (lambda: keras() | {"conv2_block1_preact_bn/gamma": np.zeros(4, np.float32)}, "belongs to ResNet v2"),
    (lambda: {f"backbone/layer_with_weights-6/_conv1/kernel{reference.ENDING}": np.zeros((1, 1, 4, 4), np.float32)},
     "the stem is not a 7 x 7 convolution and a norm: .* the blocks begin at layer 6, not 2"),
]  # fmt: skip


@pytest.mark.parametrize(("arrays", "message"), FAULTS)
def test_other_checkpoints_are_refused(arrays, message, tmp_path):
    with pytest.raises(mi.CheckpointError, match=message) as error:
        do_import(tmp_path, arrays())
    assert "Fix: " in str(error.value)
    assert not (tmp_path / "weights").exists() or not [*(tmp_path / "weights").iterdir()]


@pytest.mark.parametrize("part", ["_shortcut1", "_squeeze_excitation/_se_reduce"])
def test_variants_of_keras_models_are_refused(part, tmp_path):
    arrays, _ = reference.tf_vision(image(), (1,), 4)
    arrays[f"backbone/layer_with_weights-2/{part}/kernel{reference.ENDING}"] = np.zeros((1, 1, 4, 4), np.float32)
    with pytest.raises(mi.CheckpointError, match=r"has no place in a ResNetBackbone. Fix: "):
        do_import(tmp_path, arrays)


def test_blocks_of_two_convolutions_are_refused(tmp_path):
    arrays, _ = reference.tf_vision(image(), (1,), 4)
    with pytest.raises(mi.CheckpointError, match="'backbone/layer_with_weights-2/' has no third convolution"):
        do_import(tmp_path, {name: value for name, value in arrays.items() if "_conv3" not in name})


def test_a_format_can_be_chosen(tmp_path):
    assert do_import(tmp_path, tpu() | slim(), file_format="tf_slim").settings["blocks"] == (1, 2)
    with pytest.raises(mi.CheckpointError, match="which are not names of this format: TF-Slim"):
        do_import(tmp_path, tpu(), file_format="tf_slim")
    with pytest.raises(
        mi.ConfigError, match=r"file_format = 'slim' is not known. .*Fix: choose one of tpu, tf_slim, tf_vis"
    ):
        do_import(tmp_path, tpu(), file_format="slim")


def test_missing_and_damaged_checkpoints_are_refused(tmp_path):
    options = {"output_dir": tmp_path / "weights", "formats": WEIGHT_FORMATS}
    with pytest.raises(mi.CheckpointError, match=r"none: there is no such file: neither .*none.index nor"):
        mi.jobs.import_weights(checkpoint=tmp_path / "none", **options)
    (tmp_path / "empty").mkdir()
    with pytest.raises(mi.CheckpointError, match=r"this folder holds no checkpoint. Fix: give the path"):
        mi.jobs.import_weights(checkpoint=tmp_path / "empty", **options)
    (tmp_path / "text.ckpt").write_text("no checkpoint " * 100)
    with pytest.raises(mi.CheckpointError, match="is not a TensorFlow checkpoint, or is damaged"):
        mi.jobs.import_weights(checkpoint=tmp_path / "text.ckpt", **options)
    reference.write(tmp_path / "cut.ckpt", tpu())
    (data,) = tmp_path.glob("cut.ckpt.data*")
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(mi.CheckpointError, match=re.escape("cut.ckpt")):
        mi.jobs.import_weights(checkpoint=tmp_path / "cut.ckpt.index", **options)


def test_a_folder_with_other_files_is_not_written_to(tmp_path):
    do_import(tmp_path, tpu())
    do_import(tmp_path, slim())  # replaces imported weights
    (tmp_path / "weights/notes.txt").write_text("mine")
    with pytest.raises(mi.ConfigError, match=r"contains notes.txt, so it is not a folder of imported weights"):
        do_import(tmp_path, tpu())
