"""`--network`: networks of other libraries in predict, evaluate, explain and train, with a preprocessing file."""

import json
import re
import shutil
import tempfile

import keras
import nibabel
import numpy as np
import pytest

import mtf_imaging as mi
from tests.commands import run_line
from tests.networks.test_nnunet import PLAIN

AFFINES = np.diag([-1.5, -1.5, 2.0, 1.0]), np.diag([1.5, -1.5, -2.0, 1.0])  # LPS and RPI
LABELS = {"background": 0, "organ": 1, "spot": 2}


def built(activation="softmax", filters=3):
    keras.utils.set_random_seed(1)
    image = keras.Input((None, None, None, 1))
    skip = keras.layers.Conv3D(8, 3, padding="same", activation="relu", kernel_initializer="he_normal")(image)
    x = keras.layers.Conv3D(8, 3, padding="same", activation="relu")(keras.layers.MaxPool3D()(skip))
    x = keras.layers.Concatenate()([keras.layers.UpSampling3D()(x), skip])
    return keras.Model(image, keras.layers.Conv3D(filters, 1, activation=activation)(x))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a network, its preprocessing file, and two CTs of different sizes and orientations."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    built().save("net.keras")
    rng = np.random.default_rng(0)
    (tmp_path / "cases").mkdir()
    for number, (sizes, affine) in enumerate(zip([(10, 12, 9), (14, 8, 10)], AFFINES, strict=True)):
        values = rng.integers(-300, 400, sizes).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(values, affine), f"cases/volume-{number}.nii.gz")
    describe()
    return tmp_path


def describe(**fields):
    known = {"channel_names": {"0": "CT"}, "labels": LABELS, "file_ending": ".nii.gz"}
    known |= {"intensities": ["window -160 240"], "resolution": "any:2"}
    with open("net.json", "w", encoding="utf-8") as file:
        json.dump({name: value for name, value in (known | fields).items() if value is not None}, file)


def expected(number, directions="RAS"):
    """Returns the labels of Keras's own network, computed on an image whose axes increase in some directions."""
    stored = nibabel.load(f"cases/volume-{number}.nii.gz")
    own = nibabel.io_orientation(stored.affine)
    there = nibabel.orientations.axcodes2ornt(directions)
    canonical = nibabel.orientations.axcodes2ornt("RAS")
    values = turned(stored.get_fdata().astype(np.float32), own, canonical)
    image = np.pad(np.clip((values + 160) / 400, 0, 1), [(0, n % 2) for n in values.shape])
    model = keras.saving.load_model("net.keras")
    logits = model(turned(image, canonical, there)[np.newaxis, ..., np.newaxis])
    found = turned(np.argmax(logits[0], -1), there, canonical)
    return turned(found[tuple(map(slice, values.shape))], canonical, own)


def turned(array, have, want):
    return nibabel.orientations.apply_orientation(array, nibabel.orientations.ornt_transform(have, want))


def predict(flags=""):
    return run_line(f"predict --network net.keras --preprocessing net.json --input cases --output out {flags}")


def labels(number):
    return np.asarray(nibabel.load(f"out/segmentation-{number}.nii.gz").dataobj)


@pytest.mark.parametrize(
    ("directions", "flags"),
    [
        ("RAS", ""),
        ("SPL", "--mesh_shape rows:2,cols:2 --layout x:rows,z:cols"),
        ("PIR", "--mesh_shape slabs:4 --layout x:slabs --sequential slabs"),
    ],
)
def test_predictions_equal_those_of_keras(folder, directions, flags):
    """Each volume keeps its own size and geometry, and the network sees the axes in its own order."""
    describe(axes=directions)
    assert predict(flags) == 0
    for number in range(2):
        wanted = expected(number, directions)
        assert len(np.unique(wanted)) == 3
        np.testing.assert_array_equal(labels(number), wanted)


@pytest.mark.slow
def test_two_processes_import_the_network_once(folder):
    predict = "predict --network net.keras --preprocessing net.json --input cases --output out"
    assert run_line(f"launch --num_processes 2 -- {predict} --mesh_shape rows:2 --layout x:rows") == 0
    for number in range(2):
        np.testing.assert_array_equal(labels(number), expected(number))


def test_a_second_call_keeps_the_predictions_of_the_same_network(folder, capfd):
    assert predict() == 0
    assert predict() == 0
    assert "kept 2 of 2 predictions" in capfd.readouterr().err
    built(activation=None).save("net.keras")
    assert predict() == 1
    assert "another network" in capfd.readouterr().err


def test_a_window_slides_over_small_and_large_volumes(folder):
    describe(sliding_window=[8, 8, 12])
    assert predict() == 0
    assert labels(0).shape == (10, 12, 9)


def test_fields_of_nnunet_and_notes_are_accepted(folder):
    describe(numTraining=2, tensorImageSize="3D", release="1.0", hospital="ours")
    assert predict() == 0


def test_evaluate_scores_the_network(folder):
    for number in range(2):
        image = nibabel.load(f"cases/volume-{number}.nii.gz")
        known = expected(number).astype(np.uint8)
        nibabel.save(nibabel.Nifti1Image(known, image.affine), f"cases/segmentation-{number}.nii.gz")
    assert run_line("evaluate --network net.keras --preprocessing net.json --input_dir cases --output_dir scores") == 0
    scores = json.loads((folder / "scores" / "metrics.json").read_text())
    assert scores["organ"]["dice_global"] == 1


def test_one_output_with_a_sigmoid_is_a_region(folder):
    built("sigmoid", 1).save("net.keras")
    describe(labels={"background": 0, "organ": [1]}, regions_class_order=[1])
    assert predict() == 0
    assert {*np.unique(labels(0))} == {0, 1}


@pytest.mark.parametrize(
    ("fields", "message", "code"),
    [
        ({"intensities": None}, "lacks intensities", 1),
        ({"axes": "LPX"}, "axes is 'LPX'", 1),
        ({"sliding_window": [8, 8]}, "sliding_window is [8, 8]", 1),
        ({"sliding_windows": [8, 8, 8]}, "the field 'sliding_windows' is unknown. Fix: write 'sliding_window'", 1),
        ({"Spacing": [1, 1, 1]}, "the field 'Spacing' is unknown. Fix: write 'spacing'", 1),
        ({"resampling": "nnunet", "resolution": "8"}, "resampling is 'nnunet' with the resolution 8", 1),
        ({"labels": {"background": 0, "organ": 1}}, "the network has 3 classes, but this task needs 2", 2),
        (
            {"channel_names": {"0": "T1w", "1": "T2w"}, "intensities": ["z-score", "z-score"]},
            "has 1 channels, but the image has 2",
            1,
        ),
    ],
)
def test_what_does_not_fit_is_named(folder, capfd, fields, message, code):
    describe(**fields)
    assert predict() == code
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--network net.keras", "give --preprocessing"),
        ("--network net.keras --preprocessing net.json --model_dir run", "are two networks"),
        ("--model_dir run --preprocessing net.json", "--preprocessing has no effect"),
        ("", "predict needs --model_dir or --network"),
    ],
)
def test_flags_that_do_not_fit(folder, capfd, flags, message):
    assert run_line(f"predict {flags} --input cases --output out") == 2
    assert message in capfd.readouterr().err


def test_a_missing_network_is_named(folder, capfd):
    assert run_line("predict --network no.keras --preprocessing net.json --input cases --output out") == 1
    assert "no.keras: there is no such file" in capfd.readouterr().err


def test_explain_needs_no_preprocessing(folder, capsys):
    assert run_line("explain --network net.keras --resolution 32 --mesh_shape slabs:4 --layout x:slabs") == 0
    assert "4 processors" in capsys.readouterr().out


def test_the_job_must_segment_volumes(folder, capfd):
    assert run_line("explain --network net.keras --gin_file deeplab_scenes") == 2
    assert "job.task is @deeplab.SemanticSegmentation()" in capfd.readouterr().err


def test_the_costs_of_one_fold_are_those_of_all(tmp_path, capfd):
    for name in ("one", "two"):
        shutil.copytree(PLAIN, tmp_path / name)
    shutil.copytree(PLAIN / "fold_0", tmp_path / "two" / "fold_1")
    for command in ("explain", "search --num_devices 2 --hardware a100 --batch_size 1"):
        reports = []
        for name in ("one", "two"):
            assert run_line(f"{command} --network {tmp_path / name} --resolution 8") == 0
            out, err = capfd.readouterr()
            assert ("one of 2 folds" in err) == (name == "two")
            reports.append(re.sub(r"[0-9.]+ s\b", "", out))
        assert reports[0] == reports[1]


@pytest.mark.parametrize(
    ("sizes", "kernel", "message"),
    [
        (("n", 1, "x", "y", "z"), (3, 1, 3, 3, 3), ""),
        (("n", 2, "x", "y", "z"), (2, 2, 3, 3, 3), "its input 'image' has 2 channels, but the image has 1"),
        (("n", 1, "x", "y"), (2, 1, 3, 3), "its input 'image' has 4 axes, but the image has 5"),
    ],
)
def test_search_takes_a_network_or_says_why_not(folder, capfd, sizes, kernel, message):
    pytest.importorskip("onnxruntime")
    from tests.networks.onnx_models import Builder, saved, weight

    build = Builder()
    y = build("Conv", "image", weight(*kernel), pads=[1] * (2 * len(kernel) - 4))
    saved(build.model({"image": (sizes, "float32")}, [y]), folder)
    line = "search --network net.onnx --num_devices 2 --hardware a100 --resolution 8 --batch_size 1"
    assert run_line(line) == bool(message)
    out, err = capfd.readouterr()
    assert message in err if message else "--mesh_shape rows:2 --layout x:rows" in out


def test_train_starts_from_the_weights_and_exports_them(folder):
    """Without a learning rate the run has the weights of the file; then training changes them.

    The network replaces that of the job.
    """
    job = "unet3d.Segmentation"
    (folder / "job.gin").write_text(f"job.task = @{job}()\n{job}.network = @unet3d.UNet3D()\n{job}.dice_weight = 0.5\n")
    network = keras.saving.load_model("net.keras")
    for number in range(2):
        image = nibabel.load(f"cases/volume-{number}.nii.gz")
        known = expected(number).astype(np.uint8)
        nibabel.save(nibabel.Nifti1Image(known, image.affine), f"cases/segmentation-{number}.nii.gz")
    (folder / "cases" / "dataset.json").write_text((folder / "net.json").read_text())
    assert run_line("convert --input_dir cases --output_dir records --resolution 8") == 0
    train = "train --network net.keras --gin_file job.gin --data_dir records --num_steps 1"
    for rate, is_same in ((0.0, True), (0.1, False)):
        assert run_line(f"{train} --model_dir run-{rate} --gin.Adam.learning_rate={rate}") == 0
        exported = mi.networks.load("net.keras").export(f"run-{rate}")
        pairs = zip(exported.get_weights(), network.get_weights(), strict=True)
        assert all(np.array_equal(*pair) == is_same for pair in pairs)
    assert run_line("train --network net.keras --data_dir records --model_dir run-0.1 --num_steps 2") == 0  # of its job
    assert run_line("predict --model_dir run-0.1 --input cases --output out") == 0


def test_the_network_is_read_once(folder, monkeypatch):
    calls = []
    load = mi.networks.load
    monkeypatch.setattr(mi.networks, "load", lambda path, **options: calls.append(path) or load(path, **options))
    assert predict() == 0
    assert calls == [folder / "net.keras"]


def test_the_flips_of_the_preprocessing_file(folder):
    """The network is not symmetric, so flips change its labels; flags replace those of the file."""
    assert predict() == 0
    plain = [labels(number) for number in range(2)]
    describe(flips=["x"])
    assert predict("--overwrite") == 0
    assert not all(np.array_equal(labels(number), plain[number]) for number in range(2))
    assert predict("--overwrite --gin.job.flips=()") == 0
    for number in range(2):
        np.testing.assert_array_equal(labels(number), plain[number])


def test_axes_that_keep_their_voxels(folder):
    """A spacing of 0 is that of the volume, which is 1.5 mm along x and y and 2 mm along z."""
    describe(spacing=[1.5, 1.5, 0])
    assert predict() == 0
    for number in range(2):
        np.testing.assert_array_equal(labels(number), expected(number))
