"""convert, evaluate and predict on folders with the names of the public data sets, with a fixed voxel size in mm."""

import json

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.phantom.phantom import make_case
from tests.commands import run

TINY = [
    *("--gin_file", "unet3d_demo", "--gin.UNet3D.base_filters=2", "--gin.UNet3D.depth=2", "--gin.UNet3D.convs=1"),
    *("--num_steps", "2"),
    "--gin.train.class_frequencies=None",  # with first biases, a network of two steps predicts background only
]
# Every 4th voxel of a synthetic case, for instance 29 x 29 x 15 voxels of 11 x 11 x 14 mm; one is stored RAS, one LPS.
CASES = (0, 1)
ONE = ("--workers", 1)  # in this process, because importing TensorFlow in workers takes longer than two cases
BOX = "x:32,y:32,z:16"

# volume and segmentation of case N, and the name of its prediction
LITS = (
    "Training Batch {batch}/volume-{n}.nii",
    "Training Batch {batch}/segmentation-{n}.nii",
    "segmentation-{n}.nii.gz",
)
MSD = ("imagesTr/liver_{n}.nii.gz", "labelsTr/liver_{n}.nii.gz", "liver_{n}.nii.gz")
NNUNET = ("imagesTr/CASE_{n:03d}_0000.nii.gz", "labelsTr/CASE_{n:03d}.nii.gz", "CASE_{n:03d}.nii.gz")
DESCRIPTIONS = {
    MSD: {"name": "Liver", "modality": {"0": "CT"}, "labels": {"0": "background", "1": "liver", "2": "cancer"}},
    NNUNET: {
        "channel_names": {"0": "CT"},
        "labels": {"background": 0, "liver": 1, "tumor": 2},
        "numTraining": len(CASES),
        "file_ending": ".nii.gz",
    },
}
KEYS = {LITS: "{n}", MSD: "liver_{n}", NNUNET: "CASE_{n:03d}"}


@pytest.fixture(scope="module")
def images():
    return {n: [image.slicer[::4, ::4, ::4] for image in make_case(5, n)] for n in CASES}


def write(folder, scheme, images):
    for n, pair in images.items():
        for name, image in zip(scheme, pair, strict=False):
            path = folder / name.format(n=n, batch=n + 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            nibabel.save(image, path)
            (path.parent / f"._{path.name}").write_bytes(b"\x00\x05\x16\x07Mac OS X")
    if scheme in DESCRIPTIONS:
        (folder / "dataset.json").write_text(json.dumps(DESCRIPTIONS[scheme]))
    return folder


@pytest.fixture(scope="module")
def model(images, tmp_path_factory):
    """A run of two steps on cases with the file names of LiTS."""
    folder = tmp_path_factory.mktemp("lits")
    cases = write(folder / "cases", LITS, images)
    assert run("convert", "--input_dir", cases, "--output_dir", folder / "records", "--spacing", "11,11,15", *ONE) == 0
    assert run("train", "--data_dir", folder / "records", "--model_dir", folder / "model", *TINY) == 0
    return folder / "model"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", KEYS, ids=["LiTS", "MSD", "nnU-Net"])
def test_a_folder_passes_the_whole_workflow(tmp_path, images, model, scheme, capsys):
    folder = write(tmp_path / "cases", scheme, images)
    assert (
        run("convert", "--input_dir", folder, "--output_dir", tmp_path / "records", "--spacing", "11,11,15", *ONE) == 0
    )
    manifest = json.loads((tmp_path / "records/dataset.json").read_text())
    assert (manifest["format"], manifest["resolution"], manifest["spacing"]) == (5, BOX, "11,11,15")
    assert [case["case"] for case in manifest["cases"]] == [KEYS[scheme].format(n=n) for n in CASES]
    for case in manifest["cases"]:
        assert all((folder / case[name]).is_file() for name in ("volume", "labels"))
    out = capsys.readouterr().out
    assert f"box: {BOX} of 11,11,15 mm" in out
    for n, codes in ((0, "RAS"), (1, "LPS")):
        assert f"stored {codes} -> x, y, z = R, A, S: 1 ({KEYS[scheme].format(n=n)})" in out

    assert run("evaluate", "--model_dir", model, "--input_dir", folder, "--output_dir", tmp_path / "scores") == 0
    metrics = json.loads((tmp_path / "scores/metrics.json").read_text())
    assert list(metrics["cases"]) == [KEYS[scheme].format(n=n) for n in CASES]
    assert run("predict", "--model_dir", model, "--input", folder, "--output", tmp_path / "predicted") == 0
    for n in CASES:
        source = nibabel.load(folder / scheme[0].format(n=n, batch=n + 1))
        scored, predicted = (
            nibabel.load(tmp_path / path / scheme[2].format(n=n)) for path in ("scores/predictions", "predicted")
        )
        assert predicted.shape == source.shape
        np.testing.assert_array_equal(predicted.affine, source.affine)
        np.testing.assert_array_equal(np.asarray(predicted.dataobj), np.asarray(scored.dataobj))
    assert len(list((tmp_path / "predicted").iterdir())) == len(CASES) + 1  # and the record


@pytest.mark.slow
def test_the_spacing_of_a_run_is_kept_and_checked(tmp_path, images, model, capsys):
    config = (model / "config.gin").read_text()
    assert f"setup.resolution = '{BOX}'" in config
    assert "setup.spacing = '11,11,15'" in config
    assert "job.largest_liver = False" in config
    before = {path: path.read_bytes() for path in model.glob("*.gin")}
    cases = write(tmp_path / "cases", LITS, images)
    assert run("convert", "--input_dir", cases, "--output_dir", tmp_path / "cubes", "--resolution", BOX, *ONE) == 0
    capsys.readouterr()
    assert run("train", "--data_dir", tmp_path / "cubes", "--model_dir", model, "--num_steps", 3) == 1
    assert f"the records have resolution {BOX}, not {BOX} of 11,11,15 mm" in capsys.readouterr().err
    # With another spacing, the same network segments the whole field of view and returns another segmentation.
    volume = cases / "Training Batch 1/volume-0.nii"
    for name, words in (("box", []), ("same", ["--spacing", "11,11,15"]), ("cube", ["--spacing", ""])):
        out = tmp_path / f"{name}.nii.gz"
        assert run("predict", "--model_dir", model, "--input", volume, "--output", out, *words) == 0
    box, same, cube = (
        np.asarray(nibabel.load(tmp_path / f"{name}.nii.gz").dataobj) for name in ("box", "same", "cube")
    )
    np.testing.assert_array_equal(box, same)
    assert np.any(box != cube)
    assert {path: path.read_bytes() for path in model.glob("*.gin")} == before


@pytest.mark.parametrize("command", ["convert", "train", "evaluate", "predict"])
def test_an_invalid_spacing_is_reported_at_once(command, capsys):
    words = {
        "convert": ["--input_dir", "a", "--output_dir", "b"],
        "train": ["--data_dir", "a", "--model_dir", "b"],
        "evaluate": ["--model_dir", "a", "--input_dir", "b", "--output_dir", "c"],
        "predict": ["--model_dir", "a", "--input", "b", "--output", "c"],
    }
    assert run(command, *words[command], "--spacing", "1.5x2") == 1
    assert "spacing '1.5x2': needs a positive size in mm along x, y and z" in capsys.readouterr().err
