"""Jobs of several processes compute the same as jobs of one process, and only process 0 writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from tests.jobs import together

ROOT = Path(__file__).parents[2]
LIMIT = 400  # seconds
STEPS = 4

pytestmark = pytest.mark.slow


def environ():
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CONFIG", "SLURM_"))}
    return clean | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}


def start(num, *program, restarts=0, timeout=60):
    """Starts a program as several processes."""
    words = ["launch", "--num_processes", num, "--timeout", timeout, "--restarts", restarts, "--", *program]
    command = [sys.executable, "-m", "mtf_imaging.cli.main", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environ(), **pipes)


def launch(num, *program, code=0, **options):
    """Runs a program as several processes, and returns its output."""
    with start(num, *program, **options) as process:
        try:
            out, errors = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    assert process.returncode == code, out + errors
    return out, errors


def run_jobs(folder, num, *jobs, **options):
    path = folder / f"jobs_{num}_{len(list(folder.glob('jobs_*')))}.json"
    path.write_text(json.dumps(jobs))
    return launch(num, ROOT / "tests/jobs/together.py", path, **options)


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


@pytest.fixture(scope="module")
def one(folder):
    """The results of one process."""
    for each in [
        job("one", "one", eval=True),
        job("two_of_four", "one", steps=2),
        {"job": "evaluate", "model_dir": "one", "layout": "one", "output": "one_scores"},
        {"job": "predict", "model_dir": "one", "layout": "one", "output": "one_predictions"},
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
        job("four_micro", "uneven", micro_batches=2, eval=True),
        job("two_of_four", "space"),  # one process began this run
        job("fewer", "space", steps=2),
        job("auto", "auto", steps=1),
        {"job": "evaluate", "model_dir": "one", "layout": "space", "output": "four_scores"},
        {"job": "predict", "model_dir": "one", "layout": "batch", "output": "four_predictions"},
    ]
    return one, *run_jobs(one, 4, *jobs)


def assert_same_run(run, expected):
    np.testing.assert_allclose(together.losses(run), together.losses(expected), rtol=1e-9, atol=1e-12)
    values, others = together.weights(run), together.weights(expected)
    assert values.keys() == others.keys() and len(values) > 10
    for name, value in others.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["four_space", "four_uneven", "four_batch", "four_micro", "two_of_four"])
def test_training_under_four_processes_equals_one_process(four, name):
    folder, _, _ = four
    assert_same_run(folder / name, folder / "one")


@pytest.mark.parametrize("name", ["four_space", "four_batch", "four_micro"])
def test_held_out_scores_equal_those_of_one_process(four, name):
    folder, _, _ = four
    scores = [np.loadtxt(folder / run / "eval/scores.csv", delimiter=",", skiprows=1, ndmin=2) for run in (name, "one")]
    assert scores[1].shape == (2, 4)
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9, atol=1e-12)
    assert [path.name for path in (folder / name / "best").glob("*.index")] == [
        path.name for path in (folder / "one/best").glob("*.index")
    ]


def test_evaluation_and_prediction_write_the_same_files(four):
    folder, _, _ = four
    assert content(folder / "four_predictions") == content(folder / "one_predictions")
    scores = [json.loads((folder / f"{name}_scores/metrics.json").read_text()) for name in ("four", "one")]
    assert scores[0] == scores[1]
    assert content(folder / "four_scores/predictions") == content(folder / "one_scores/predictions")


def test_only_process_0_writes(four):
    folder, _, _ = four

    def kinds(run):
        """Names of files without what differs between any two runs."""
        return sorted(name.split(".out.tfevents")[0] for name in content(folder / run))

    assert kinds("four_space") == kinds("one")
    assert len(list((folder / "four_space/train").glob("*tfevents*"))) == 1
    assert not list(folder.rglob("*.lock"))


def test_the_automatic_layout_uses_all_processes(four):
    folder, _, _ = four
    np.testing.assert_allclose(together.losses(folder / "auto"), together.losses(folder / "one")[:1], rtol=1e-9)


def test_two_processes_resume_the_run_of_four_and_disagree(four):
    folder, _, _ = four
    out, _ = run_jobs(folder, 2, job("fewer", "space"), {"job": "fails", "failing": job("bad", "one")})
    assert_same_run(folder / "fewer", folder / "one")
    message = "mesh '' cannot be divided equally among 2 processes"
    assert out.count(message) == 2 and f"[1] ConfigError: {message}" in out
    assert not (folder / "bad").exists()
