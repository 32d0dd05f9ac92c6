"""The commands on photos, and their messages about folders and runs of the other kind."""

import json
import shutil
import subprocess
import sys

import pytest

from mtf_imaging.kinds.facts import Facts
from tests.cli.test_before_tensorflow import PROGRAM
from tests.evaluation.oracle import store
from tests.jobs.launched import launch
from tests.jobs.photo_network import CLASSES, GIN, write_photos
from tests.scores import read_results
from tests.training.test_job import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos, CT cases, a run on photos and a run on volumes without weights."""
    folder = tmp_path_factory.mktemp("photos")
    write_photos(folder / "photos")
    shutil.copytree(folder / "photos/images", folder / "unlabeled")
    store(folder / "cases", 3, "RAS")
    for name in ("photo_run", "volume_run"):
        (folder / name).mkdir()
        (folder / name / "config.gin").write_text("job.task = None\n")
        (folder / name / "ckpt-2.index").touch()
    Facts("photos", "height:16,width:24", description=CLASSES.to_fields(), held_out_split="val").save(
        folder / "photo_run"
    )
    Facts("arrays", "x:8,y:8,z:8").save(folder / "volume_run")
    return folder


ON_PHOTOS = "--model_dir photo_run --input_dir photos --output_dir out"
TO_RUN = "or the folder of a run on {} as model_dir.\nOn the command line: --{}, --model_dir.\n"
FOR_VOLUMES = "photos: holds photos, but volumes are needed here. Fix: "
ERRORS = [
    (
        "evaluate --model_dir photo_run --input_dir cases --output_dir out",
        "cases: holds volumes, but the network was trained on photos. Fix: give photos as input_dir, "
        + TO_RUN.format("volumes", "input_dir"),
    ),
    (
        "predict --model_dir photo_run --input cases/volume-3.nii.gz --output out",
        "cases/volume-3.nii.gz: holds volumes, but the network was trained on photos. Fix: give photos as input, "
        + TO_RUN.format("volumes", "input"),
    ),
    (
        "evaluate --model_dir volume_run --input_dir photos --output_dir out",
        f"{FOR_VOLUMES}give volumes as input_dir, " + TO_RUN.format("photos", "input_dir"),
    ),
    (
        "predict --model_dir volume_run --input photos --output out",
        f"{FOR_VOLUMES}give volumes as input, " + TO_RUN.format("photos", "input"),
    ),
    (
        "evaluate --model_dir volume_run --input_dir cases --output_dir out --split val",
        "split = 'val' has no effect on volumes: it is a setting of images with objects, photos. Fix: leave split "
        "out.\n"
        "On the command line: --split.\n",
    ),
    (
        f"evaluate {ON_PHOTOS} --split test",
        "photos: has no split 'test'. Fix: choose one of train, val.\nOn the command line: --split.\n",
    ),
    (
        f"evaluate {ON_PHOTOS} --fold 0",
        "fold = 0 has no effect on photos: it is a setting of volumes. Fix: leave fold out.\n"
        "On the command line: --fold.\n",
    ),
    (f"evaluate {ON_PHOTOS} --resolution x:8,y:8", "resolution 'x:8,y:8': needs a positive size for height and width."),
    ("evaluate --model_dir photo_run --input_dir unlabeled --output_dir out", "contains photos without label images."),
    ("predict --model_dir photo_run --input photos --output photos/out", "photos/out: lies in the folder of the cases"),
    ("predict --model_dir photo_run --input photos --output out.png", "so the output must be a folder, too."),
    ("convert --input_dir photos --output_dir records", f"{FOR_VOLUMES}photos need no conversion: train reads them"),
    ("train --data_dir photos --model_dir new", f"{FOR_VOLUMES}choose a job with photos as its data set"),
    (
        "cross_validate --data_dir photos --input_dir photos --output_dir cv",
        f"{FOR_VOLUMES}hold out photos with a list of the folder, and run train and evaluate.",
    ),
]


@pytest.fixture(scope="module")
def results(folder):
    """Returns {command line: its results}; one process runs them all."""
    before = sorted(folder.rglob("*"))
    lines = json.dumps([line.split() for line, _ in ERRORS])
    done = subprocess.run([sys.executable, "-c", PROGRAM, lines], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(folder.rglob("*")) == before, "a command wrote files"
    return dict(zip([line for line, _ in ERRORS], json.loads(done.stdout), strict=True))


@pytest.mark.parametrize(("line", "message"), ERRORS)
def test_errors_are_reported_before_tensorflow_is_loaded(results, line, message):
    code, err, _, is_loaded = results[line]
    assert code == (2 if "has no effect" in err else 1)
    assert message in err
    assert not is_loaded


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of two steps, with held-out photos of the same folder."""
    folder = tmp_path_factory.mktemp("trained")
    write_photos(folder / "photos")
    (folder / "job.gin").write_text(GIN)
    assert run(*train(folder), "--gin_file", folder / "job.gin", "--num_steps", 2) == 0
    return folder


def train(folder):
    photos = folder / "photos"
    return ["train", "--data_dir", photos, "--eval_dir", photos, "--model_dir", folder / "run"]


def evaluate(folder, output, *more):
    words = ["--model_dir", folder / "run", "--input_dir", folder / "photos", "--output_dir", folder / output]
    return ["evaluate", *words, *more]


@pytest.mark.slow
def test_photos_pass_the_whole_workflow(trained, capsys, monkeypatch):
    monkeypatch.delenv("MTF_IMAGING_NO_NEXT_STEP", raising=False)
    assert run(*train(trained), "--num_steps", 3) == 0  # with the saved configuration
    out = capsys.readouterr().out
    assert f"Next: mtf-imaging evaluate --model_dir {trained}/run --input_dir CASES --output_dir evaluation\n" in out
    assert "setup.resolution = 'height:16,width:24'" in (trained / "run/config.gin").read_text()
    assert len((trained / "run/losses.csv").read_text().splitlines()) == 4

    assert run(*evaluate(trained, "evaluation")) == 0
    out = capsys.readouterr().out
    assert "pixel accuracy" in out
    assert f"Next: open {trained}/evaluation/report.html in a browser" in out
    assert [*json.loads((trained / "evaluation/metrics.json").read_text())["photos"]] == ["photo_4", "photo_5"]

    predict = ["predict", "--model_dir", trained / "run", "--input", trained / "photos", "--output", trained / "labels"]
    assert run(*predict, "--mesh_shape", "rows:2", "--layout", "width:rows") == 0
    assert f"Next: open {trained}/labels in a viewer" in capsys.readouterr().out
    for key in ("photo_4", "photo_5"):
        prediction = trained / "evaluation/predictions" / f"{key}.png"
        assert (trained / "labels" / f"{key}.png").read_bytes() == prediction.read_bytes()


@pytest.mark.slow
def test_gin_sets_flips_and_scales(trained):
    options = ["--gin.job.flips=('width',)", "--gin.job.scales=(1.0, 1.5)", "--split", "train"]
    for name, batch in (("averaged", []), ("batches", ["--eval_batch_size", "2"])):
        assert run(*evaluate(trained, name, *options, *batch)) == 0
    assert (trained / "averaged/metrics.json").read_text() == (trained / "batches/metrics.json").read_text()
    assert len(json.loads((trained / "averaged/metrics.json").read_text())["photos"]) == 4


@pytest.mark.slow
def test_explain_takes_the_size_of_the_crops(trained, capsys):
    """A halo of a split height has the width of the crop."""
    job = ["explain", "--gin_file", trained / "job.gin", "--mesh_shape", "rows:2", "--layout", "height:rows", "--json"]
    halos = {}
    for width, words in ((24, []), (40, ["--resolution", "height:32,width:40"]), (48, ["--resolution", "48"])):
        assert run(*job, "--gin.SemanticSegmentation.classes=3", *words) == 0
        halos[width] = json.loads(capsys.readouterr().out)["step"]["forward"]["halo_bytes_sent"]["interior"]
    assert halos[40] / halos[24] == 40 / 24
    assert halos[48] / halos[24] == 2


@pytest.mark.slow
def test_two_processes_write_the_results_of_one(trained):
    assert run(*evaluate(trained, "one")) == 0
    split = ["--mesh_shape", "rows:2", "--layout", "height:rows"]
    launch(2, *evaluate(trained, "two", *split))
    launch(
        2, "train", *train(trained)[1:5], "--model_dir", trained / "two_run", "--gin_file", trained / "job.gin", *split
    )
    assert read_results(trained / "one") == read_results(trained / "two")
    assert (trained / "two_run/best").is_dir()
