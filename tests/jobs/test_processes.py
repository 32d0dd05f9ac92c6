"""Jobs of several processes compute the same as jobs of one process, and only process 0 writes."""

import json
import re
from pathlib import Path

import nibabel
import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.cli.main import main
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.files import lock
from mtf_imaging.kinds.prediction_record import FILE
from tests.jobs import together
from tests.jobs.launched import launch, train_command
from tests.records import contents
from tests.scores import read_scores

STEPS = 4

pytestmark = pytest.mark.slow


def run_jobs(folder, num, *jobs, **options):
    path = folder / f"jobs_{num}_{len(list(folder.glob('jobs_*')))}.json"
    path.write_text(json.dumps(jobs))
    return launch(num, Path(together.__file__), path, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    write_phantom(folder / "cases", 3, seed=1)
    for name in ("records", "held_out"):
        options = {"resolution": "x:8,y:14,z:8", "workers": 1, "progress": False}
        mi.jobs.convert(input_dir=folder / "cases", output_dir=folder / name, **options)
    return folder


def job(model_dir, layout, steps=STEPS, **options):
    return {"job": "train", "model_dir": model_dir, "layout": layout, "steps": steps, **options}


# A box that crops y and pads z, in slices of 3, 3, 3 and 1 voxels along y.
BOX = {"resolution": "x:12,y:10,z:24", "spacing": "30,24,12", "flips": ("y",)}
PATCH = {"patch": (4, 8, 6), "centered_patches": 0.5}


@pytest.fixture(scope="module")
def one(folder):
    """The results of one process."""
    for each in [
        job("one", "one", eval=True),
        job("one_micro", "one", micro_batches=2, eval=True),
        job("two_of_four", "one", steps=2),
        job("one_started", "one", steps=1, initial_weights="one"),
        job("one_patches", "one", eval=True, **PATCH),
        {"job": "evaluate", "model_dir": "one", "layout": "one", "output": "one_scores"},
        {"job": "predict", "model_dir": "one", "layout": "one", "output": "one_predictions"},
        {"job": "predict", "model_dir": "one", "layout": "one", "output": "one_box", **BOX},
        {"job": "predict", "model_dir": "one_patches", "layout": "one", "output": "one_windows", "flips": ("z",)},
    ]:
        together.run(folder, each)
    return folder


@pytest.fixture(scope="module")
def four(one):
    """The results of four processes."""
    jobs = [
        job("four_space", "space", eval=True),
        job("four_uneven", "uneven", recompute=True),
        job("four_batch", "batch", checkpoint_async=True, eval=True),
        job("four_turns", "turns", eval=True),
        job("four_micro", "uneven", micro_batches=2, eval=True),
        job("two_of_four", "space"),  # one process began this run
        job("fewer", "space", steps=2),
        job("auto", "auto", steps=1),
        job("four_started", "uneven", steps=1, initial_weights="one"),
        job("four_patches", "space", steps=2, eval=True, **PATCH),
        job("four_patches", "batch", eval=True, **PATCH),
        {"job": "evaluate", "model_dir": "one", "layout": "space", "output": "four_scores"},
        {"job": "evaluate", "model_dir": "one", "layout": "turns", "output": "turns_scores"},
        {"job": "predict", "model_dir": "one", "layout": "batch", "output": "four_predictions"},
        {"job": "predict", "model_dir": "one", "layout": "turns", "output": "turns_predictions"},
        {"job": "predict", "model_dir": "one", "layout": "uneven", "output": "four_box", **BOX},
        {"job": "predict", "model_dir": "four_patches", "layout": "batch", "output": "four_windows", "flips": ("z",)},
    ]
    return one, run_jobs(one, 4, *jobs)


def assert_same_run(run, expected):
    np.testing.assert_allclose(together.losses(run), together.losses(expected), rtol=1e-9, atol=1e-12)
    values, others = together.weights(run), together.weights(expected)
    assert values.keys() == others.keys()
    assert len(values) > 10
    for name, value in others.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


# Batch norm normalizes each micro-batch by itself.
RUNS = [
    ("four_space", "one"),
    ("four_uneven", "one"),
    ("four_batch", "one"),
    ("four_turns", "one"),
    ("two_of_four", "one"),
    ("four_micro", "one_micro"),
    ("four_started", "one_started"),
    ("four_patches", "one_patches"),
]


@pytest.mark.parametrize(("name", "other"), RUNS)
def test_training_under_four_processes_equals_one_process(four, name, other):
    folder, _ = four
    assert_same_run(folder / name, folder / other)


@pytest.mark.parametrize(("name", "other"), [RUNS[0], RUNS[2], RUNS[3], RUNS[5], RUNS[7]])
def test_held_out_scores_equal_those_of_one_process(four, name, other):
    folder, _ = four
    paths = [folder / run / "eval/scores.csv" for run in (name, other)]
    scores = [np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2) for path in paths]
    assert scores[1].shape == (2, 4)
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9, atol=1e-12)
    assert [path.name for path in (folder / name / "best").glob("*.index")] == [
        path.name for path in (folder / "one/best").glob("*.index")
    ]


def test_evaluation_and_prediction_write_the_same_files(four):
    folder, _ = four
    assert contents(folder / "four_predictions", FILE) == contents(folder / "one_predictions", FILE)
    assert contents(folder / "turns_predictions", FILE) == contents(folder / "one_predictions", FILE)
    assert len(contents(folder / "four_box", FILE)) == 3
    windows = [
        contents(folder / f"{name}_windows", FILE) for name in ("four", "one")
    ]  # of two runs, which the headers name
    assert windows[0].keys() == windows[1].keys()
    for name in windows[0]:
        images = [nibabel.load(folder / f"{run}_windows" / name) for run in ("four", "one")]
        np.testing.assert_array_equal(*(image.dataobj for image in images))
        np.testing.assert_array_equal(*(image.affine for image in images))
    box = contents(folder / "one_box", FILE)
    assert contents(folder / "four_box", FILE) == box != contents(folder / "one_predictions", FILE)
    assert read_scores(folder / "four_scores") == read_scores(folder / "one_scores")
    assert read_scores(folder / "turns_scores") == read_scores(folder / "one_scores")
    assert contents(folder / "four_scores/predictions") == contents(folder / "one_scores/predictions")


def test_two_processes_in_turns_train_as_one_process(folder):
    turns = {"mesh": "slabs:4,rows:2", "layout": "x:slabs,y:rows"}
    launch(2, *train_command(folder, folder / "two_in_turns", STEPS, "--sequential", "slabs", **turns))
    assert main([*map(str, train_command(folder, folder / "alone", STEPS)[:-4])]) == 0
    assert_same_run(folder / "two_in_turns", folder / "alone")


def test_only_process_0_writes(four):
    folder, _ = four

    def kinds(run):
        """Names of files without what differs between any two runs."""
        return sorted(name.split(".out.tfevents")[0] for name in contents(folder / run))

    assert kinds("four_space") == kinds("one")
    assert len(list((folder / "four_space/train").glob("*tfevents*"))) == 1
    assert not list(folder.rglob("*.lock"))


def test_the_automatic_layout_uses_all_processes(four):
    folder, _ = four
    np.testing.assert_allclose(together.losses(folder / "auto"), together.losses(folder / "one")[:1], rtol=1e-9)


def test_no_process_waits_for_one_that_failed(one):
    failing = {"job": "predict", "model_dir": "one", "layout": "space", "output": "locked"}
    with lock.held(one / "locked"):  # only process 0 locks and writes
        out = run_jobs(one, 2, {"job": "fails", "failing": failing})
    assert re.search(r"^ConfigError: .*locked: another run is writing to this folder", out, re.MULTILINE)
    assert "[1] ClusterError: lost process 0 (127.0.0.1:" in out


def test_two_processes_resume_the_run_of_four_and_disagree(four):
    folder, _ = four
    out = run_jobs(folder, 2, job("fewer", "space"), {"job": "fails", "failing": job("bad", "one")})
    assert_same_run(folder / "fewer", folder / "one")
    message = "mesh '' cannot be divided equally among 2 processes"
    assert out.count(message) == 2
    assert f"[1] ConfigError: {message}" in out
    assert not (folder / "bad").exists()
