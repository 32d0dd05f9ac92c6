"""Trained models of nnU-Net equal PyTorch and their ONNX exports, and their preprocessing equals nnU-Net's formulas.

`make_nnunet_models.py` writes the models.
"""

import contextlib
import json
import shutil
from pathlib import Path

import nibabel
import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.description.description_fields import from_fields
from mtf_imaging.data.intensities.schemes import parse_intensity
from mtf_imaging.data.intensities.statistics import channel_statistics
from mtf_imaging.data.sampling.own_size import OwnSize
from mtf_imaging.errors import CheckpointError, DataError, MtfImagingError, NotSupportedError
from mtf_imaging.inference.network import of_function
from mtf_imaging.inference.uncertainty import entropy, uncertainty, with_entropy
from mtf_imaging.kinds.volumes.segment.images import find_cases_of, input_region, source_statistics
from mtf_imaging.networks.nnunet import checkpoints, preprocessing
from tests.kinds.volumes import as_source, network_input, read_case, segment_volume
from tests.networks import comparing
from tests.networks.nnunet_rules import resized_along

DATA = Path(__file__).parent / "data"
PLAIN, RESIDUAL, FLAT = (DATA / name for name in ("plain__3d_fullres", "residual__3d_fullres", "flat__2d"))
SLOW = pytest.mark.slow


def last(array):
    return np.moveaxis(array, 1, -1)


def program_of(network, image, layout, training=False):
    """Returns the program for an image of nnU-Net, whose axes are [batch, z, y, x, channels]."""
    sizes = image.shape[1:-1]
    specs = network.inputs(**dict(zip("zyx"[-len(sizes) :], sizes)))

    def function(image):
        return network(image=image, training=training)

    return mi.Program(function, specs, **comparing.layout_of(layout, specs))


@pytest.mark.parametrize("layout", ["split", "in turns", *(pytest.param(x, marks=SLOW) for x in ("whole", "uneven"))])
@pytest.mark.parametrize("folder", [PLAIN, RESIDUAL, FLAT], ids=lambda x: x.name)
def test_logits_equal_pytorch(folder, layout):
    network, stored = mi.networks.load(folder), np.load(folder / "reference.npz")
    image = last(stored["image"])
    logits = program_of(network, image, layout)(image=image)
    assert comparing.difference(logits, last(stored["0"])) < 1e-5


@pytest.mark.parametrize("folder", [PLAIN, RESIDUAL], ids=lambda x: x.name)
def test_logits_equal_onnx_runtime_for_other_sizes(folder):
    runtime = pytest.importorskip("onnxruntime").InferenceSession(folder / "network.onnx")
    network = mi.networks.load(folder / "fold_0" / "checkpoint_final.pth")
    image = np.random.default_rng(0).standard_normal([1, 8, 16, 12, 1 + (folder == RESIDUAL)]).astype(np.float32)
    (wanted,) = runtime.run(None, {"image": np.moveaxis(image, -1, 1)})
    assert comparing.difference(program_of(network, image, "uneven")(image=image), last(wanted)) < 1e-5


def test_training_returns_the_logits_of_deep_supervision():
    network, stored = mi.networks.load(RESIDUAL), np.load(RESIDUAL / "reference.npz")
    image = last(stored["image"])
    program = program_of(network, image, "split", training=True)
    results = program(image=image)
    assert list(results) == ["logits", "logits_1"]
    for i, logits in enumerate(results.values()):
        assert comparing.difference(logits, last(stored[str(i)])) < 1e-5
    state = network.export(program)
    assert len(state) == 148, "PyTorch also names the layers of the encoder in the decoder, and each layer in a list"
    weight = "encoder.stages.1.blocks.0.conv1.conv.weight"
    np.testing.assert_array_equal(state[weight], state[f"decoder.{weight.replace('.conv.w', '.all_modules.0.w')}"])
    assert state[weight].shape == (2, 2, 3, 3, 3)


@pytest.fixture
def model(tmp_path):
    """A copy of a model, which a test changes."""
    return shutil.copytree(PLAIN, tmp_path / PLAIN.name)


def plans_of(folder, **entries):
    """Changes the architecture in the plans of a model."""
    plans = json.loads((folder / "plans.json").read_text())
    plans["configurations"]["3d_fullres"]["architecture"]["arch_kwargs"] |= entries
    (folder / "plans.json").write_text(json.dumps(plans))


@pytest.mark.parametrize(
    ("entries", "kind", "text"),
    [
        ({"features_per_stage": [3, 5]}, CheckpointError, r"has the shape \[4, 3, 3, 3, 3\], but plans.json describes"),
        ({"n_conv_per_stage": [1, 3]}, CheckpointError, r"'encoder.stages.1.0.convs.2.conv.weight' is missing"),
        ({"n_conv_per_stage": [1, 1]}, CheckpointError, "has 4 weights which .*'encoder.stages.1.0.convs.1.conv.bias'"),
        ({"strides": [[1, 1, 1]]}, DataError, r"has a malformed entry: \[\[1, 1, 1\]\] has 1 values instead of 2"),
        ({"kernel_sizes": [[1, 3, 3], [3, -3, 3]]}, DataError, "malformed entry: -3 is not a positive whole number"),
        ({"conv_op": None, "nonlin": "torch.nn.GELU"}, NotSupportedError, "conv_op None, nonlin GELU"),
        ({"dropout_op": "torch.nn.Dropout3d"}, NotSupportedError, "has dropout_op = torch.nn.Dropout3d, but"),
        ({"norm_op_kwargs": {"affine": False}}, NotSupportedError, "instance norms without weights"),
    ],
)  # fmt: skip
def test_plans_that_do_not_fit(model, entries, kind, text):
    plans_of(model, **entries)
    with pytest.raises(kind, match=text):
        mi.networks.load(model)


def test_missing_files(model):
    checkpoint = model / "fold_0" / "checkpoint_final.pth"
    shutil.copytree(model / "fold_0", model / "fold_1")
    with pytest.raises(DataError, match=r"folds fold_0, fold_1. Fix: pass .* such as .*fold_0/checkpoint_final.pth"):
        mi.networks.load(model)
    assert mi.networks.load(model / "fold_1").weights == mi.networks.load(PLAIN).weights
    shutil.rmtree(model / "fold_1")
    checkpoint.rename(checkpoint.with_name("checkpoint_best.pth"))
    mi.networks.load(model)
    shutil.rmtree(model / "fold_0")
    with pytest.raises(DataError, match="there is no checkpoint"):
        mi.networks.load(model)
    assert "flips" not in preprocessing(model)
    (model / "dataset.json").unlink()
    with pytest.raises(DataError, match=r"dataset.json"):
        preprocessing(model)
    (model / "plans.json").unlink()
    with pytest.raises(DataError, match=r"there is no plans.json"):
        mi.networks.load(checkpoint)


def test_the_folds_are_those_that_nnunet_finds(model):
    final, best = "checkpoint_final.pth", "checkpoint_best.pth"
    for name in ("fold_10/" + final, "fold_2/" + final, "fold_3/" + best, "fold_all/" + final):
        (model / name).parent.mkdir()
        (model / name).touch()
    found = [path.relative_to(model).as_posix() for path in checkpoints(model)]
    assert found == [f"fold_0/{final}", f"fold_2/{final}", f"fold_10/{final}"]
    assert checkpoints(model / "fold_3") == [model / "fold_3" / best]
    for number in (0, 2, 10):
        (model / f"fold_{number}" / final).unlink()
    assert checkpoints(model) == [model / "fold_3" / best]
    shutil.rmtree(model / "fold_3")
    assert checkpoints(model) == [model / "fold_all" / final]


@pytest.mark.parametrize("order", [None, (2, 1)])
def test_logits_become_labels_and_probabilities(order):
    logits = np.random.default_rng(0).normal(0, 3, (4, 5, 3 if order is None else 2)).astype(np.float32)
    labels = {"whole": 1, "core": 2}
    masks = {"whole": (1, 2), "core": (2,)}
    description = Description(("CT",), labels, masks, order, has_logits=True)
    if order is None:
        wanted = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        known = logits.argmax(-1)
    else:
        wanted = 1 / (1 + np.exp(-logits))
        known = np.where(logits[..., 1] > 0, 1, np.where(logits[..., 0] > 0, 2, 0))
    np.testing.assert_allclose(description.probabilities(logits), wanted, rtol=1e-5)
    np.testing.assert_array_equal(description.to_labels(logits), known)
    network = of_function(lambda image: logits[:, :, None], 1, logits.shape[-1])
    entropies = with_entropy(network, description.has_regions, description.probabilities)(np.zeros((4, 5, 1, 1)))
    np.testing.assert_array_equal(entropies[:, :, 0, :-1], logits)
    np.testing.assert_allclose(entropies[:, :, 0, -1], entropy(wanted, description.has_regions), rtol=1e-5)
    mean = uncertainty(entropies, description.has_regions, probabilities=description.probabilities)
    np.testing.assert_allclose(mean[:, :, 0], np.stack([entropies[:, :, 0, -1], np.zeros((4, 5))], -1), rtol=1e-5)


def test_damaged_plans(model):
    """Plans without an entry, or with another value of it, end in an error of this package."""
    original = json.loads((model / "plans.json").read_text())
    places = [(), ("configurations",), ("configurations", "3d_fullres")]
    places += [(*places[-1], "architecture"), (*places[-1], "architecture", "arch_kwargs")]
    for place in places:
        entries = original
        for key in place:
            entries = entries[key]
        for key, before in list(entries.items()):
            for value in (None, -1, "text", [], {}, [[]]):
                entries[key] = value
                (model / "plans.json").write_text(json.dumps(original))
                for read in (mi.networks.load, preprocessing):
                    with contextlib.suppress(MtfImagingError):
                        read(model)
            entries[key] = before


PREPROCESSING = {
    PLAIN: {
        "channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1, "tumor": 2}, "file_ending": ".nii.gz",
        "intensities": ["clip -42 187 mean 81.5 sd 34.25"], "spacing": [0.75, 0.8, 3.0], "sliding_window": [8, 12, 4],
        "resolution": "any", "axes": "SPL", "flips": ["x", "y", "z"],
    },
    RESIDUAL: {  # its reader turns images to RAS, and its first axis is the one of sagittal slices
        "channel_names": {"0": "FLAIR", "1": "T1w"},
        "labels": {"background": 0, "whole tumor": [1, 2], "tumor core": 2},
        "regions_class_order": [1, 2], "file_ending": ".nii.gz",
        "intensities": ["z-score of nonzero voxels", "z-score"], "spacing": [1.0, 2.0, 1.0],
        "sliding_window": [8, 4, 12], "resolution": "any", "axes": "RSA", "flips": ["x", "y"],
    },
    FLAT: {
        "channel_names": {"0": "rescale_to_0_1"}, "labels": {"background": 0, "cell": 1}, "file_ending": ".nii.gz",
        "intensities": ["rescale_to_0_1"], "spacing": [0.5, 0.5, 0.0], "sliding_window": [8, 12, 1],
        "resolution": "any", "axes": "SPL",
    },
}  # fmt: skip


@pytest.mark.parametrize("folder", PREPROCESSING, ids=lambda x: x.name)
def test_preprocessing(folder):
    fields = preprocessing(folder)
    assert fields == PREPROCESSING[folder] | {"rules": "any", "resampling": "nnunet"}
    assert [*map(str, from_fields(fields).intensities)] == fields["intensities"]


def test_preprocessing_of_other_models(model):
    assert preprocessing(model, stored="RAS")["axes"] == "SAR"
    with pytest.raises(DataError, match="stored = 'LRS'"):
        preprocessing(model, stored="LRS")
    with pytest.raises(DataError, match=r"'3d_lowres'. Did you mean '3d_fullres'"):
        preprocessing(model, "3d_lowres")
    plans = json.loads((model / "plans.json").read_text())
    plans["configurations"]["3d_fullres"]["previous_stage"] = "3d_lowres"
    (model / "plans.json").write_text(json.dumps(plans))
    with pytest.raises(NotSupportedError, match="needs the segmentation of '3d_lowres' as an input"):
        preprocessing(model)


def test_the_resampling_of_plans_is_that_which_is_computed(model):
    plans = json.loads((model / "plans.json").read_text())
    own = plans["configurations"]["3d_fullres"]
    options = {"is_seg": False, "order": 3, "order_z": 0, "force_separate_z": None}
    own |= {"resampling_fn_data": "resample_data_or_seg_to_shape", "resampling_fn_data_kwargs": options}
    (model / "plans.json").write_text(json.dumps(plans))
    assert preprocessing(model)["resampling"] == "nnunet"
    options["order"] = 1
    (model / "plans.json").write_text(json.dumps(plans))
    with pytest.raises(NotSupportedError, match=r"data_kwargs is {.*'order': 1.*}, but only {.*'order': 3"):
        preprocessing(model)


IMAGE = np.where(np.arange(6000) % 3, np.random.default_rng(0).normal(90, 50, 6000), 0).astype(np.float32)
NORMALIZATION = {
    "clip -42 187 mean 81.5 sd 34.25": lambda x: (np.clip(x, -42, 187) - 81.5) / max(34.25, 1e-8),
    "z-score": lambda x: (x - x.mean()) / max(x.std(), 1e-8),
    "z-score of nonzero voxels": lambda x: np.where(x, (x - x[x != 0].mean()) / max(x[x != 0].std(), 1e-8), 0),
    "rescale_to_0_1": lambda x: (x - x.min()) / max((x - x.min()).max(), 1e-8),
    "none": lambda x: x,
}


@pytest.mark.parametrize("name", NORMALIZATION)
@pytest.mark.parametrize("image", [IMAGE, np.full(27, 3, np.float32)], ids=["image", "constant"])
def test_normalization_equals_the_formulas_of_nnunet(name, image):
    ours = parse_intensity(name).apply(image, channel_statistics(image))
    np.testing.assert_allclose(ours, NORMALIZATION[name](image.astype(np.float64)), rtol=1e-5, atol=1e-5)


ISOTROPIC, THICK = (1.0, 1.2, 1.1), (0.8, 0.8, 5.0)


@pytest.mark.parametrize(
    ("spacing", "target", "into", "back"),
    [
        (ISOTROPIC, (0.7, 1.5, 1.0), None, None),
        (THICK, (1.1, 0.6, 4.0), 2, 2),
        (ISOTROPIC, (4.0, 0.9, 1.0), 0, 0),
        ((1.0, 4.1, 1.0), (0.9, 0.9, 3.5), 1, 2),
        ((0.3, 1.2, 1.2), ISOTROPIC, None, None),
    ],
)
def test_images_and_logits_are_resampled_as_in_nnunet(tmp_path, spacing, target, into, back):
    """The image is normalized first; windows larger than it are filled up with 0 on both sides."""
    values = np.random.default_rng(0).normal(80, 20, (9, 8, 7)) + 8 * np.indices((9, 8, 7)).sum(0)
    values = values.astype(np.float32)  # each slice has another range, which splines keep
    nibabel.save(nibabel.Nifti1Image(values, np.diag([*spacing, 1])), tmp_path / "a_0000.nii.gz")
    fields = {"channel_names": {"0": "T1w"}, "labels": {"background": 0, "organ": 1, "spot": 2}}
    description = from_fields(fields | {"intensities": ["clip 60 220 mean 40 sd 80"]})
    (case,) = find_cases_of(tmp_path / "a_0000.nii.gz", description, need_labels=False)
    image = read_case(case, description=description)
    sampling = OwnSize(target, 1, (12, 4, 6), follows_nnunet=True)
    sizes = [round(own / mm * n) for own, mm, n in zip(spacing, target, values.shape)]
    wanted = resized_along((np.clip(values, 60, 220) - 40) / 80, sizes, 3, into)
    lacks = [max(0, least - size) for least, size in zip(sampling.least, sizes)]
    wanted = np.pad(wanted, [(n // 2, n - n // 2) for n in lacks])
    found = network_input(image, sampling, description=description)[..., 0]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)

    logits = np.random.default_rng(1).normal(0, 1, (*wanted.shape, 3)).astype(np.float32)
    inside = tuple(slice(n // 2, n // 2 + size) for n, size in zip(lacks, sizes))
    known = [resized_along(logits[inside][..., i], values.shape, 1, back) for i in range(3)]
    labels = segment_volume(image, sampling, lambda image: logits, description=description)
    np.testing.assert_array_equal(labels, np.argmax(known, 0))


def test_slices_of_the_input_equal_the_whole(tmp_path):
    values = np.random.default_rng(0).normal(40, 90, (9, 8, 7)).astype(np.float32)
    nibabel.save(nibabel.Nifti1Image(values, np.diag([*THICK, 1])), tmp_path / "a_0000.nii.gz")
    fields = {"channel_names": {"0": "T1w"}, "labels": {"background": 0, "organ": 1}, "intensities": ["z-score"]}
    description = from_fields(fields)
    (case,) = find_cases_of(tmp_path / "a_0000.nii.gz", description, need_labels=False)
    image, sampling = read_case(case, description=description), OwnSize((1.1, 0.6, 4.0), 1, follows_nnunet=True)
    whole = network_input(image, sampling, description=description)
    source, region = as_source(image), (slice(1, 5), slice(3, 11), slice(2, 8))
    statistics = source_statistics(source, description)
    part = input_region(source, sampling, region, description=description, statistics=statistics)
    np.testing.assert_array_equal(part, whole[region])
