"""The commands on images with objects, and their messages about folders and runs of another kind."""

import json
import shutil
import subprocess
import sys

import pytest

from mtf_imaging.kinds.facts import Facts
from tests.cli.test_before_tensorflow import PROGRAM
from tests.evaluation.oracle import store
from tests.jobs import photo_network
from tests.jobs.launched import launch
from tests.jobs.object_network import CATEGORIES, GIN, write_objects_folder
from tests.scores import read_results
from tests.training.test_job import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Objects, photos, CT cases, and runs on each of them without weights."""
    folder = tmp_path_factory.mktemp("objects")
    write_objects_folder(folder / "objects")
    photo_network.write_photos(folder / "photos")
    store(folder / "cases", 3, "RAS")
    for name in ("object_run", "photo_run", "volume_run", "cv/fold_0"):
        (folder / name).mkdir(parents=True)
        (folder / name / "config.gin").write_text("job.task = None\n")
        (folder / name / "ckpt-2.index").touch()
    facts = {"resolution": "height:16,width:24", "held_out_split": "val"}
    for name in ("object_run", "cv/fold_0"):
        Facts("objects", **facts, description=CATEGORIES.to_fields()).save(folder / name)
    Facts("photos", **facts, description=photo_network.CLASSES.to_fields()).save(folder / "photo_run")
    Facts("arrays", "x:8,y:8,z:8").save(folder / "volume_run")
    shutil.copytree(folder / "objects/train", folder / "plain")
    return folder


ON_OBJECTS = "--model_dir object_run --input_dir objects --output_dir out"
TO_RUN = "or the folder of a run on {} as model_dir.\nOn the command line: --{}, --model_dir.\n"
FOR_VOLUMES = "objects: holds images with objects, but volumes are needed here. Fix: "
ERRORS = [
    (
        "evaluate --model_dir object_run --input_dir cases --output_dir out",
        "cases: holds volumes, but the network was trained on images with objects. Fix: give images with objects as "
        "input_dir, " + TO_RUN.format("volumes", "input_dir"),
    ),
    (
        "evaluate --model_dir object_run --input_dir photos --output_dir out",
        "photos: holds photos, but images with objects are needed here. Fix: give images with objects as input_dir, "
        + TO_RUN.format("photos", "input_dir"),
    ),
    (
        "predict --model_dir object_run --input photos --output out",
        "photos: holds photos, but images with objects are needed here. Fix: give images with objects as input, "
        + TO_RUN.format("photos", "input"),
    ),
    (
        "evaluate --model_dir photo_run --input_dir objects --output_dir out",
        "objects: holds images with objects, but photos are needed here. Fix: give photos as input_dir, "
        + TO_RUN.format("images with objects", "input_dir"),
    ),
    (
        "predict --model_dir photo_run --input objects --output out",
        "objects: holds images with objects, but photos are needed here. Fix: give photos as input, "
        + TO_RUN.format("images with objects", "input"),
    ),
    (
        "evaluate --model_dir volume_run --input_dir objects --output_dir out",
        f"{FOR_VOLUMES}give volumes as input_dir, " + TO_RUN.format("images with objects", "input_dir"),
    ),
    (
        "evaluate --model_dir object_run --input_dir plain --output_dir out",
        "plain: holds photos, but images with objects",
    ),
    (f"evaluate {ON_OBJECTS} --split test", "objects: has no split 'test'"),
    (
        f"evaluate {ON_OBJECTS} --fold 0",
        "fold = 0 has no effect on images with objects: it is a setting of volumes. Fix: leave fold out.\n"
        "On the command line: --fold.\n",
    ),
    (
        "predict --model_dir object_run --input objects --output out --submission",
        "submission = True has no effect on images with objects: it is a setting of volumes. Fix: leave submission "
        "out.\n"
        "On the command line: --submission.\n",
    ),
    (
        "predict --model_dir cv --ensemble --input objects --output out",
        "ensemble = True has no effect on images with objects: it is a setting of volumes, photos, arrays. Fix: "
        "leave ensemble out.\nOn the command line: --ensemble.\n",
    ),
    (
        "evaluate --model_dir cv --ensemble --input_dir objects --output_dir out",
        "ensemble = True has no effect on images with objects: it is a setting of volumes, photos, arrays",
    ),
    (
        "predict --model_dir object_run --input objects --output objects/out",
        "objects/out: lies in the folder of the cases",
    ),
    ("predict --model_dir object_run --input objects --output out.json", "so the output must be a folder, too."),
    (
        "convert --input_dir objects --output_dir records",
        f"{FOR_VOLUMES}images need no conversion: train reads them directly",
    ),
    (
        "train --data_dir objects --model_dir new",
        f"{FOR_VOLUMES}choose a job with images as its data set (train.data = @Objects()).",
    ),
    (
        "cross_validate --data_dir objects --input_dir objects --output_dir cv2",
        f"{FOR_VOLUMES}hold out images with a split of the folder, and run train and evaluate.",
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
    assert code in (1, 2)
    assert message in err
    assert not is_loaded


def test_plan_needs_volumes(folder, capsys):
    assert run("plan", "--data_dir", folder / "objects", "--num_devices", 2, "--hardware", "h200") == 1
    message = "objects: holds images with objects, but volumes are needed here. Fix: images have no voxel size to plan;"
    assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of two steps, with held-out images of the same folder."""
    folder = tmp_path_factory.mktemp("trained")
    write_objects_folder(folder / "objects")
    (folder / "job.gin").write_text(GIN)
    assert run(*train(folder), "--gin_file", folder / "job.gin", "--num_steps", 2) == 0
    return folder


def train(folder):
    objects = folder / "objects"
    return ["train", "--data_dir", objects, "--eval_dir", objects, "--model_dir", folder / "run"]


def evaluate(folder, output, *more):
    words = ["--model_dir", folder / "run", "--input_dir", folder / "objects", "--output_dir", folder / output]
    return ["evaluate", *words, *more]


@pytest.mark.slow
def test_objects_pass_the_whole_workflow(trained, capsys, monkeypatch):
    monkeypatch.delenv("MTF_IMAGING_NO_NEXT_STEP", raising=False)
    assert run(*train(trained), "--num_steps", 3) == 0  # with the saved configuration
    out = capsys.readouterr().out
    assert f"Next: mtf-imaging evaluate --model_dir {trained}/run --input_dir CASES --output_dir evaluation\n" in out
    assert "setup.resolution = 'height:16,width:24'" in (trained / "run/config.gin").read_text()
    assert "box_ap" in (trained / "run/eval/scores.csv").read_text()

    assert run(*evaluate(trained, "evaluation")) == 0
    out = capsys.readouterr().out
    assert "category" in out
    assert f"Next: open {trained}/evaluation/report.html in a browser" in out
    assert [*json.loads((trained / "evaluation/metrics.json").read_text())["images"]] == ["q0", "q1", "q2"]

    predict = ["predict", "--model_dir", trained / "run", "--input", trained / "objects", "--output", trained / "found"]
    assert run(*predict, "--mesh_shape", "rows:2", "--layout", "width:rows") == 0
    out = capsys.readouterr().out
    assert f"Next: open {trained}/found in a viewer" in out
    found, evaluated = (
        json.loads((trained / name / "detections.json").read_text()) for name in ("found", "evaluation")
    )
    assert [one for one in found if one["image_id"] > 20] == evaluated


@pytest.mark.slow
def test_flags_and_gin_set_batches_flips_and_scales(trained):
    merged = ["--gin.job.flips=('width',)", "--gin.job.scales=(1.0, 1.5)"]
    for name, options in (("merged", merged), ("merged_2", [*merged, "--eval_batch_size", "2"])):
        assert run(*evaluate(trained, name, *options)) == 0
    assert run(*evaluate(trained, "plain")) == 0
    one, two, plain = ((trained / name / "detections.json").read_text() for name in ("merged", "merged_2", "plain"))
    assert one == two
    assert one != plain


@pytest.mark.slow
def test_two_processes_write_the_results_of_one(trained):
    assert run(*evaluate(trained, "one")) == 0
    split = ["--mesh_shape", "rows:2", "--layout", "height:rows"]
    launch(2, *evaluate(trained, "two", *split, "--eval_batch_size", "2"))
    launch(
        2, "train", *train(trained)[1:5], "--model_dir", trained / "two_run", "--gin_file", trained / "job.gin", *split
    )
    assert read_results(trained / "one") == read_results(trained / "two")
    assert (trained / "two_run/best").is_dir()
