"""Commands report missing or unusable files before they load TensorFlow, which takes seconds."""

import json
import subprocess
import sys

import numpy as np
import pytest

from mtf_imaging.cli.main import main
from tests.data.dicom_folder import write_series
from tests.evaluation.oracle import store

# Runs several command lines; prints their exit codes, stderr, seconds of CPU time, and whether TensorFlow was imported.
PROGRAM = """
import contextlib, io, json, sys, time
from mtf_imaging.cli.main import main
results = []
for words in json.loads(sys.argv[1]):
    began, err = time.process_time(), io.StringIO()
    with contextlib.redirect_stderr(err):
        code = main(words)
    results.append([code, err.getvalue(), time.process_time() - began, "tensorflow" in sys.modules])
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files of a run, two cases, an invalid volume, segmentations, and records."""
    folder = tmp_path_factory.mktemp("files")
    for number in (3, 4):
        store(folder / "cases", number, "RAS")
    run = folder / "run"
    for name in ("", "eval", "train"):
        (run / name).mkdir(parents=True, exist_ok=True)
    (run / "config.gin").write_text("import mtf_imaging.models.unet3d\njob.task = @unet3d.LiverTumorSegmentation()\n")
    (run / "ckpt-2.index").touch()
    (folder / "untrained").mkdir()
    (folder / "untrained/config.gin").write_text((run / "config.gin").read_text())
    (folder / "empty").mkdir()
    (folder / "there").mkdir()
    (folder / "there/segmentation-4.nii.gz").write_bytes(b"someone's work")
    (folder / "damaged").mkdir()
    (folder / "damaged/volume-7.nii.gz").write_bytes(b"no NIfTI")
    write_series(folder / "series", np.zeros((4, 3, 2), np.int16), ImagePositionPatient=[0, 0, 0])
    (folder / "evaluated/predictions").mkdir(parents=True)
    (folder / "evaluated/predictions/segmentation-3.nii.gz").write_bytes(b"a prediction of this case")
    (folder / "scores").mkdir()
    (folder / "scores/metrics.json").write_text("someone's scores")
    words = ["--input_dir", str(folder / "cases"), "--output_dir", str(folder / "records"), "--resolution", "8"]
    assert main(["convert", *words, "--workers", "1"]) == 0
    return folder


PREDICT = "predict --model_dir run --output out"
EVALUATE = "evaluate --model_dir run --input_dir cases"
TRAIN = "train --model_dir new"


ERRORS = [
    (f"{PREDICT} --input none", "none: this folder of cases does not exist."),
    (f"{PREDICT} --input none.nii.gz", "none.nii.gz: this volume does not exist."),
    (f"{PREDICT} --input empty", "empty: contains no NIfTI, OME-Zarr, FreeSurfer, NRRD, MetaImage or DICOM image."),
    (f"{PREDICT} --input damaged", "damaged/volume-7.nii.gz: "),
    (
        "predict --model_dir run --input cases --output there",
        "mtf-imaging: there/segmentation-4.nii.gz: already exists. Fix: name another output, or set overwrite.\n"
        "On the command line: --overwrite.\n",
    ),
    (
        f"{PREDICT} --input cases --submission",
        "mtf-imaging: cases/volume-3.nii.gz: is not a test case of the challenge. Test cases are named "
        "test-volume-N.nii or test-volume-N.nii.gz, N = 0..69. Fix: name a folder with only test cases instead of "
        "cases, or predict without submission.\nOn the command line: --submission.\n",
    ),
    ("predict --model_dir run --input cases --output cases/out", "lies in the folder of the cases"),
    ("predict --model_dir run --input cases --output run", "is the folder of a run. Fix: choose a separate folder"),
    ("predict --model_dir run --input cases/volume-3.nii.gz --output out.png", "needs a name that ends in .nii"),
    (
        "predict --model_dir run --input cases/volume-3.nii.gz --output out.nii --output_format ome-zarr",
        "mtf-imaging: out.nii: the segmentation of one image needs a name that ends in .ome.zarr with output_format "
        "'ome-zarr'. Fix: use such a name, or name an existing folder.\nOn the command line: --output_format.\n",
    ),
    (
        "predict --model_dir run --input series --output out.nii",
        "series: IM0003.dcm and IM0010.dcm lie in the same place, ",
    ),
    (
        f"{EVALUATE} --output_dir evaluated --output_format ome-zarr",
        "evaluated/predictions: the folder holds 1 prediction(s) for cases that are not evaluated, or in another",
    ),
    (
        "predict --model_dir untrained --input cases --output out",
        "mtf-imaging: untrained: this folder holds no checkpoint. Fix: train there first, or give another model_dir.\n"
        "On the command line: --model_dir.\n",
    ),
    (
        f"{PREDICT} --input cases --checkpoint best",
        "mtf-imaging: run: this run has no best checkpoint, because training evaluated no held-out cases. Fix: train "
        "with an eval_dir or a fold, or use the last checkpoint, with checkpoint='last'.\n"
        "On the command line: --checkpoint.\n",
    ),
    (
        "evaluate --model_dir run --input_dir empty --output_dir out",
        "empty: contains no NIfTI, OME-Zarr, FreeSurfer, NRRD, MetaImage or DICOM image.",
    ),
    (f"{EVALUATE} --output_dir run", "run: training writes to this folder, because "),
    (f"{EVALUATE} --output_dir run/eval", "run/eval: training writes to this folder, because "),
    (f"{EVALUATE} --output_dir scores", "scores/metrics.json: the file already exists and belongs to other cases"),
    (
        "evaluate --model_dir untrained --input_dir cases --output_dir out",
        "mtf-imaging: untrained: this folder holds no checkpoint. Fix: train there first, or give another model_dir.\n"
        "On the command line: --model_dir.\n",
    ),
    (f"{TRAIN} --data_dir none", "none: this folder of records does not exist."),
    (
        f"{TRAIN} --data_dir records --eval_dir empty",
        "no job given; using unet3d_demo\n"
        "mtf-imaging: empty: this folder of records contains no records. "
        "Fix: run convert with this output folder.\n",
    ),
    ("convert --input_dir none --output_dir new", "none: this folder of cases does not exist."),
    ("convert --input_dir cases --output_dir run", "run: training writes to this folder, because "),
    ("phantom --output_dir run", "run: training writes to this folder, because "),
    ("score --reference_dir cases --prediction_dir cases --output_dir run", "training writes to this folder, because "),
]


@pytest.fixture(scope="module")
def results(folder):
    """Returns {command line: its results}; one process runs them all."""
    before = _files(folder)
    lines = json.dumps([line.split() for line, _ in ERRORS])
    done = subprocess.run([sys.executable, "-c", PROGRAM, lines], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert _files(folder) == before, "a command wrote files"
    return dict(zip([line for line, _ in ERRORS], json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("line", "message"), ERRORS)
def test_errors_are_reported_before_tensorflow_is_loaded(results, line, message):
    code, err, seconds, is_loaded = results[line]
    assert err == message if message.endswith("\n") else message in err.splitlines()[-1]
    assert code == 1
    assert not is_loaded
    assert seconds < 5, "takes one or two seconds of CPU time"


def _files(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
