"""Networks of torchvision with random weights: imported or transplanted, they compute the same in float64."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.models.resnet import WEIGHT_FORMATS, ResNetBackbone
from mtf_imaging.models.video import R2Plus1D
from mtf_imaging.training.checkpoints.weight_files.all_files import open_weights
from mtf_imaging.training.checkpoints.weights_folder import write_weights
from tests.references.transplants import LAYOUTS, assert_equal, compute_imported, image_spec

PROGRAM = Path(__file__).with_name("torch_networks.py")
RESNETS = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "retinanet_resnet50_fpn": "ResNet-50",
    "maskrcnn_resnet50_fpn_v2": "ResNet-50",
}
FILES = ("weights.pth", "legacy.pth", "training.pth", "weights.safetensors")


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A function that returns the folder of a network, and its arrays."""
    folders = {}

    def run(name):
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            subprocess.run([sys.executable, PROGRAM, name, folders[name]], check=True)
        arrays = np.load(folders[name] / "arrays.npz")
        outputs = [arrays[key] for key in sorted(arrays.files) if key.startswith("output")]
        return folders[name], arrays["image"], outputs

    return run


@pytest.mark.parametrize(
    ("name", "mesh_shape", "layout"), [*((name, *LAYOUTS[0]) for name in RESNETS), ("resnet50", *LAYOUTS[1])]
)
def test_imported_resnets_have_the_same_features(network, tmp_path, name, mesh_shape, layout):
    folder, image, expected = network(name)
    imported = mi.jobs.import_weights(
        checkpoint=folder / "weights.pth", output_dir=tmp_path / "weights", formats=WEIGHT_FORMATS
    )
    assert imported.title == RESNETS[name]
    assert imported.file_format == "torchvision"
    backbone = ResNetBackbone(**imported.settings)

    def fn(image):
        return list(backbone.features(image, is_training=False))

    found = compute_imported(tmp_path / "weights", fn, {"image": image_spec(image)}, mesh_shape, layout)
    assert len(expected) == (3 if name.startswith("retinanet") else 4)  # RetinaNet needs no C2
    for feature, other in zip(found[-len(expected) :], expected, strict=True):
        assert_equal(feature, other)


@pytest.mark.parametrize("name", FILES)
def test_all_kinds_of_files_have_the_same_weights(network, tmp_path, name):
    folder, *_ = network("resnet18")
    options = {"formats": WEIGHT_FORMATS, "output_dir": tmp_path / "weights"}
    imported = mi.jobs.import_weights(checkpoint=folder / name, **options)
    assert (imported.title, imported.num_variables, imported.slots) == ("ResNet-18", 100, ())
    file, first = open_weights(folder / name), open_weights(folder / FILES[0])
    assert file.shapes == first.shapes
    assert len(file.shapes) == 122
    for own in file.shapes:
        np.testing.assert_array_equal(file.read(own), first.read(own))


@pytest.mark.parametrize(("mesh_shape", "layout"), [LAYOUTS[0], ("rows:2,cols:2", "time:rows,height:cols")])
def test_r2plus1d_18_with_transplanted_weights_has_the_same_logits(network, tmp_path, mesh_shape, layout):
    folder, clip, (expected,) = network("r2plus1d_18")
    file = open_weights(folder / "weights.pth")
    video = R2Plus1D(classes=5, stem_middle=45, middle_per_block=True)

    def fn(clip):
        return video(clip, is_training=False)

    shape, _ = image_spec(clip, ("batch", "time", "height", "width", "channels"))
    program = mi.Program(fn, {"clip": (shape, clip.dtype)})
    values = dict(zip(program.variables, map(file.read, map(_torch_name, program.variables)), strict=True))
    values = {name: _our_axes(name, value) for name, value in values.items()}
    write_weights(tmp_path / "weights", values, {"title": "R(2+1)D-18"})
    found = compute_imported(tmp_path / "weights", fn, {"clip": (shape, clip)}, mesh_shape, layout)
    assert_equal(found, expected)


NORM = {"scale": "weight", "offset": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
STEM = {"space": "0", "space_norm": "1", "time": "3", "time_norm": "4"}
CONV = {"space": "0.0", "space_norm": "0.1", "time": "0.3", "time_norm": "1"}
SHORTCUT = {"shortcut": "0", "shortcut_norm": "1"}


def _torch_name(name):
    """Returns the name of a variable of R(2+1)D in torchvision/models/video/resnet.py."""
    _, *scopes, last = name.split("/")
    last = NORM.get(last, last)
    if scopes == ["classes"]:
        return {"weights": "fc.weight", "bias": "fc.bias"}[last]
    last = "weight" if last == "filter" else last
    if scopes[0] == "stem":
        return f"stem.{STEM[scopes[1]]}.{last}"
    prefix = f"layer{int(scopes[0][-1]) + 1}.{scopes[1].removeprefix('block')}"
    if scopes[2] in SHORTCUT:
        return f"{prefix}.downsample.{SHORTCUT[scopes[2]]}.{last}"
    return f"{prefix}.conv{int(scopes[2][-1]) + 1}.{CONV[scopes[3]]}.{last}"


def _our_axes(name, value):
    if name.endswith("/filter"):
        return value.transpose(2, 3, 4, 1, 0)
    return value.T if name.endswith("/weights") else value
