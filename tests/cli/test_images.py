"""The commands on photos and on images with objects, and their messages about folders and runs of other kinds."""

import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from mtf_imaging.kinds.facts import Facts
from tests.cli.test_before_tensorflow import PROGRAM
from tests.commands import run
from tests.evaluation.oracle import store
from tests.jobs import object_network, photo_network
from tests.jobs.launched import launch
from tests.jobs.object_network import write_objects_folder
from tests.jobs.photo_network import write_photos
from tests.scores import read_results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos, objects and CT cases, and runs on each of them without weights."""
    folder = tmp_path_factory.mktemp("images")
    write_photos(folder / "photos")
    write_objects_folder(folder / "objects")
    store(folder / "cases", 3, "RAS")
    shutil.copytree(folder / "photos/images", folder / "unlabeled")
    shutil.copytree(folder / "objects/train", folder / "plain")
    photos, objects = (one.to_fields() for one in (photo_network.CLASSES, object_network.CATEGORIES))
    facts = {"resolution": "height:16,width:24", "held_out_split": "val"}
    for name, own in {
        "photo_run": Facts("photos", **facts, description=photos),
        "object_run": Facts("objects", **facts, description=objects),
        "cv/fold_0": Facts("objects", **facts, description=objects),
        "volume_run": Facts("arrays", "x:8,y:8,z:8"),
    }.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "config.gin").write_text("job.task = None\n")
        (folder / name / "ckpt-2.index").touch()
        own.save(folder / name)
    return folder


ON_PHOTOS = "--model_dir photo_run --input_dir photos --output_dir out"
ON_OBJECTS = "--model_dir object_run --input_dir objects --output_dir out"
PHOTOS_FOR_VOLUMES = "photos: holds photos, but volumes are needed here. Fix: "
OBJECTS_FOR_VOLUMES = "objects: holds images with objects, but volumes are needed here. Fix: "


def mismatches():
    """Yields a command for each kind of run and of data that do not belong together, and its error."""
    models = {"photo_run": "photos", "object_run": "images with objects", "volume_run": "volumes"}
    folders = {"photos": "photos", "objects": "images with objects", "cases": "volumes"}
    for (model, wanted), (path, held) in itertools.product(models.items(), folders.items()):
        if wanted != held:
            why = f"the network was trained on {wanted}" if held == "volumes" else f"{wanted} are needed here"
            for command, flag, output in (("evaluate", "input_dir", "output_dir"), ("predict", "input", "output")):
                path = path.replace("cases", "cases/volume-3.nii.gz") if command == "predict" else path
                fix = f"give {wanted} as {flag}, or the folder of a run on {held} as model_dir."
                yield (
                    f"{command} --model_dir {model} --{flag} {path} --{output} out",
                    f"{path}: holds {held}, but {why}. Fix: {fix}\nOn the command line: --{flag}, --model_dir.\n",
                )


ERRORS = [
    *mismatches(),
    (
        "evaluate --model_dir volume_run --input_dir cases --output_dir out --split val",
        "split = 'val' has no effect on volumes: it is a setting of images with objects, photos. Fix: leave it "
        "out.\n"
        "On the command line: --split.\n",
    ),
    (
        f"evaluate {ON_PHOTOS} --split test",
        "photos: has no split 'test'. Fix: choose one of train, val.\nOn the command line: --split.\n",
    ),
    (
        f"evaluate {ON_PHOTOS} --fold 0",
        "fold = 0 has no effect on photos: it is a setting of volumes. Fix: leave it out.\n"
        "On the command line: --fold.\n",
    ),
    (f"evaluate {ON_PHOTOS} --resolution x:8,y:8", "resolution 'x:8,y:8': needs a positive size for height and width."),
    ("evaluate --model_dir photo_run --input_dir unlabeled --output_dir out", "contains photos without label images."),
    ("predict --model_dir photo_run --input photos --output photos/out", "photos/out: lies in the folder of the cases"),
    ("predict --model_dir photo_run --input photos --output out.png", "so the output must be a folder, too."),
    (
        "convert --input_dir photos --output_dir records",
        f"{PHOTOS_FOR_VOLUMES}photos need no conversion: train reads them",
    ),
    ("train --data_dir photos --model_dir new", f"{PHOTOS_FOR_VOLUMES}choose a job with photos as its data set"),
    (
        "cross_validate --data_dir photos --input_dir photos --output_dir cv",
        f"{PHOTOS_FOR_VOLUMES}hold out photos with a list of the folder, and run train and evaluate.",
    ),
    (
        "evaluate --model_dir object_run --input_dir plain --output_dir out",
        "plain: holds photos, but images with objects",
    ),
    (f"evaluate {ON_OBJECTS} --split test", "objects: has no split 'test'"),
    (
        f"evaluate {ON_OBJECTS} --fold 0",
        "fold = 0 has no effect on images with objects: it is a setting of volumes. Fix: leave it out.\n"
        "On the command line: --fold.\n",
    ),
    (
        "predict --model_dir object_run --input objects --output out --submission",
        "submission = True has no effect on images with objects: it is a setting of volumes. Fix: leave it "
        "out.\n"
        "On the command line: --submission.\n",
    ),
    (
        "predict --model_dir cv --ensemble --input objects --output out",
        "ensemble = True has no effect on images with objects: it is a setting of volumes, photos, arrays. Fix: leave "
        "it out.\nOn the command line: --ensemble.\n",
    ),
    (
        "evaluate --model_dir cv --ensemble --input_dir objects --output_dir out",
        "ensemble = True has no effect on images with objects: it is a setting of volumes, photos, arrays.",
    ),
    (
        "predict --model_dir object_run --input objects --output objects/out",
        "objects/out: lies in the folder of the cases",
    ),
    ("predict --model_dir object_run --input objects --output out.json", "so the output must be a folder, too."),
    (
        "convert --input_dir objects --output_dir records",
        f"{OBJECTS_FOR_VOLUMES}images need no conversion: train reads them directly",
    ),
    (
        "train --data_dir objects --model_dir new",
        f"{OBJECTS_FOR_VOLUMES}choose a job with images as its data set (train.data = @Objects()).",
    ),
    (
        "cross_validate --data_dir objects --input_dir objects --output_dir cv3",
        f"{OBJECTS_FOR_VOLUMES}hold out images with a split of the folder, and run train and evaluate.",
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


def test_plan_needs_volumes(folder, capsys):
    assert run("plan", "--data_dir", folder / "objects", "--num_devices", 2, "--hardware", "h200") == 1
    assert f"{OBJECTS_FOR_VOLUMES}images have no voxel size to plan;" in capsys.readouterr().err


class Example(NamedTuple):
    """A kind of images.

    Attributes:
      write: writes a folder of images.
      gin: the job.
      evaluated: the keys of the held-out images, under the name of their kind in `metrics.json`.
      table: a word in the table of scores.
      predictions: the file of predictions, or a file of one of them, and its path in an evaluation.
    """

    write: Callable[[Path], object]
    gin: str
    evaluated: tuple[str, list[str]]
    table: str
    predictions: tuple[str, str]


EXAMPLES = {
    "photos": Example(
        write_photos,
        photo_network.GIN,
        ("photos", ["photo_4", "photo_5"]),
        "pixel accuracy",
        ("photo_4.png", "predictions/photo_4.png"),
    ),
    "objects": Example(
        write_objects_folder,
        object_network.GIN,
        ("images", ["q0", "q1", "q2"]),
        "category",
        ("detections.json", "detections.json"),
    ),
}


@pytest.fixture(scope="module", params=EXAMPLES)
def trained(request, tmp_path_factory):
    """The kind and the folder of a run of two steps, with held-out images of the same folder."""
    folder = tmp_path_factory.mktemp("trained")
    EXAMPLES[request.param].write(folder / "images")
    (folder / "job.gin").write_text(EXAMPLES[request.param].gin)
    assert run(*train(folder), "--gin_file", folder / "job.gin", "--num_steps", 2) == 0
    return request.param, folder


def train(folder):
    images = folder / "images"
    return ["train", "--data_dir", images, "--eval_dir", images, "--model_dir", folder / "run"]


def evaluate(folder, output, *more):
    words = ["--model_dir", folder / "run", "--input_dir", folder / "images", "--output_dir", folder / output]
    return ["evaluate", *words, *more]


@pytest.mark.slow
def test_images_pass_the_whole_workflow(trained, capsys, monkeypatch):
    name, folder = trained
    example = EXAMPLES[name]
    monkeypatch.delenv("MTF_IMAGING_NO_NEXT_STEP", raising=False)
    assert run(*train(folder), "--num_steps", 3) == 0  # with the saved configuration
    out = capsys.readouterr().out
    assert f"Next: mtf-imaging evaluate --model_dir {folder}/run --input_dir CASES --output_dir evaluation\n" in out
    assert "setup.resolution = 'height:16,width:24'" in (folder / "run/config.gin").read_text()
    assert len((folder / "run/losses.csv").read_text().splitlines()) == 4
    assert len((folder / "run/eval/scores.csv").read_text().splitlines()) > 1

    assert run(*evaluate(folder, "evaluation")) == 0
    out = capsys.readouterr().out
    assert example.table in out
    assert f"Next: open {folder}/evaluation/report.html in a browser" in out
    kind, keys = example.evaluated
    assert [*json.loads((folder / "evaluation/metrics.json").read_text())[kind]] == keys

    predict = ["predict", "--model_dir", folder / "run", "--input", folder / "images", "--output", folder / "found"]
    assert run(*predict, "--mesh_shape", "rows:2", "--layout", "width:rows") == 0
    assert f"Next: open {folder}/found in a viewer" in capsys.readouterr().out
    found, evaluated = (folder / "found" / example.predictions[0], folder / "evaluation" / example.predictions[1])
    if name == "photos":
        assert found.read_bytes() == evaluated.read_bytes()
    else:
        rows = json.loads(found.read_text())
        assert [one for one in rows if one["image_id"] > 20] == json.loads(evaluated.read_text())


@pytest.mark.slow
def test_flags_and_gin_set_batches_flips_and_scales(trained):
    name, folder = trained
    merged = ["--gin.job.flips=('width',)", "--gin.job.scales=(1.0, 1.5)"]
    for output, options in (("merged", merged), ("merged_2", [*merged, "--eval_batch_size", "2"]), ("plain", [])):
        assert run(*evaluate(folder, output, *options, "--split", "train")) == 0
    file = "metrics.json" if name == "photos" else "detections.json"
    one, two, plain = ((folder / output / file).read_text() for output in ("merged", "merged_2", "plain"))
    assert one == two
    assert one != plain


@pytest.mark.slow
def test_explain_takes_the_size_of_the_crops(trained, capsys):
    """A halo of a split height has the width of the crop."""
    name, folder = trained
    if name != "photos":
        pytest.skip("has no crops")
    job = ["explain", "--gin_file", folder / "job.gin", "--mesh_shape", "rows:2", "--layout", "height:rows", "--json"]
    halos = {}
    for width, words in ((24, []), (40, ["--resolution", "height:32,width:40"]), (48, ["--resolution", "48"])):
        assert run(*job, "--gin.SemanticSegmentation.classes=3", *words) == 0
        halos[width] = json.loads(capsys.readouterr().out)["step"]["forward"]["halo_bytes_sent"]["interior"]
    assert halos[40] / halos[24] == 40 / 24
    assert halos[48] / halos[24] == 2


@pytest.mark.slow
def test_two_processes_write_the_results_of_one(trained):
    _, folder = trained
    assert run(*evaluate(folder, "one")) == 0
    split = ["--mesh_shape", "rows:2", "--layout", "height:rows"]
    launch(2, *evaluate(folder, "two", *split, "--eval_batch_size", "2"))
    job = ["--gin_file", folder / "job.gin", *split]
    launch(2, "train", *train(folder)[1:5], "--model_dir", folder / "two_run", *job)
    assert read_results(folder / "one") == read_results(folder / "two")
    assert (folder / "two_run/best").is_dir()
