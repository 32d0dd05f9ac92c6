"""The unchanged job scripts for Slurm, with replacements for the programs of Slurm on PATH."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mtf_imaging.cli.main import main
from tests import waiting

ROOT = Path(__file__).parents[2]
ONE_NODE, SEVERAL_NODES = (ROOT / "docs/slurm" / name for name in ("one_node.sbatch", "several_nodes.sbatch"))
SRUN = 'while [[ "$1" == --* ]]; do shift; done; exec "$@"'  # like the srun of Slurm, passes signals on to the program
STEPS = 150
TINY = [
    *("--gin_file", "unet3d_demo", "--gin.UNet3D.base_filters=2", "--gin.UNet3D.depth=2", "--gin.UNet3D.convs=1"),
    *("--num_steps", str(STEPS)),
]


@pytest.fixture
def job(tmp_path):
    """Returns a function that starts the job as Slurm does, with a given program instead of mtf-imaging.

    The function returns a context manager, which kills the job at its end.
    """
    programs = tmp_path / "bin"
    programs.mkdir()

    def program(name, body):
        (programs / name).write_text(f"#!/bin/bash\n{body}\n")
        (programs / name).chmod(0o755)

    def submit(mtf_imaging, *words, script=ONE_NODE):
        program("mtf-imaging", mtf_imaging)
        environment = os.environ | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "SLURM_JOB_ID": "4711",
            "SLURM_CPUS_PER_TASK": "2",
        }
        command = ["bash", script, *map(str, words)]
        process = subprocess.Popen(command, env=environment, cwd=tmp_path, start_new_session=True)
        return waiting.killed_at_end(process)

    program("srun", SRUN)
    program("scontrol", 'echo "$@" >> requeued')
    (tmp_path / "requeued").touch()
    return submit


@pytest.mark.slow
def test_a_requeued_job_resumes_and_equals_an_uninterrupted_one(job, tmp_path):
    assert main(["phantom", "--output_dir", str(tmp_path / "cases"), "--num_cases", "2"]) == 0
    convert = ["convert", "--input_dir", str(tmp_path / "cases"), "--output_dir", str(tmp_path / "records")]
    assert main([*convert, "--resolution", "16"]) == 0
    words = ["--data_dir", tmp_path / "records", *TINY, "--model_dir"]
    assert main(["train", *map(str, words), str(tmp_path / "whole")]) == 0

    mtf_imaging = f'exec {sys.executable} -m mtf_imaging.cli.main "$@"'
    broken, log = tmp_path / "broken", tmp_path / "broken/losses.csv"
    with job(mtf_imaging, *words, broken) as process:
        waiting.wait_until(lambda: log.is_file() and log.read_text().count("\n") > 5, "six lines", [process], [log])
        process.send_signal(signal.SIGUSR1)
        assert waiting.wait_for_end(process, logs=[log]) == 75
    assert (tmp_path / "requeued").read_text() == "requeue 4711\n"
    saved = [int(path.stem.removeprefix("ckpt-")) for path in broken.glob("ckpt-*.index")]
    assert max(saved) < STEPS, "the run ended before the signal"
    with job(mtf_imaging, *words, broken) as process:
        assert waiting.wait_for_end(process, logs=[log]) == 0
    assert (tmp_path / "requeued").read_text() == "requeue 4711\n"

    assert log.read_bytes() == (tmp_path / "whole/losses.csv").read_bytes()
    for path in (tmp_path / "whole").glob(f"ckpt-{STEPS}.*"):
        assert path.read_bytes() == (broken / path.name).read_bytes(), path.name


@pytest.mark.parametrize("script", [ONE_NODE, SEVERAL_NODES], ids=lambda script: script.stem)
@pytest.mark.parametrize(
    ("mtf_imaging", "is_signaled", "code", "requeued"),
    [
        ("exit 0", False, 0, ""),
        ("exit 1", False, 1, ""),  # the same job would fail again
        ("exit 75", False, 75, "requeue 4711\n"),  # stopped by another signal, for instance preemption
        ("kill -KILL $$", False, 137, ""),  # for instance out of memory; the same job would be killed again
        ("touch started; exec sleep 3600", True, 138, "requeue 4711\n"),  # signaled before it handles signals
        ("trap 'sleep 0.3; exit 75' USR1; touch started; while :; do sleep 0.1; done", True, 75, "requeue 4711\n"),
        (
            "trap 'exit 0' USR1; touch started; while :; do sleep 0.1; done",
            True,
            0,
            "",
        ),  # the run completed at the time of the signal
    ],
)
def test_only_interrupted_jobs_are_requeued(job, tmp_path, script, mtf_imaging, is_signaled, code, requeued):
    with job(mtf_imaging, "--data_dir", "records", script=script) as process:
        if is_signaled:
            waiting.wait_until((tmp_path / "started").is_file, "the program", [process])
            process.send_signal(signal.SIGUSR1)
        assert waiting.wait_for_end(process) == code
    assert (tmp_path / "requeued").read_text() == requeued


@pytest.mark.parametrize("script", [ONE_NODE, SEVERAL_NODES], ids=lambda script: script.stem)
def test_flags_reach_training_unchanged(job, tmp_path, script):
    words = ["--data_dir", "my records", "--gin.job.dtype='\"float64\"'"]
    with job('printf "%s\\n" "$@" > words', *words, script=script) as process:
        assert waiting.wait_for_end(process) == 0
    assert (tmp_path / "words").read_text().splitlines() == ["train", *words]


@pytest.mark.parametrize(
    ("script", "own"),
    [
        (ONE_NODE, {"--ntasks=1", "--nodes=1"}),
        (SEVERAL_NODES, {"--ntasks-per-node=8", "--gpus-per-node=8", "--nodes=2"}),
    ],
    ids=["one_node", "several_nodes"],
)
def test_the_directives_of_slurm(script, own):
    lines = script.read_text().splitlines()
    directives = {line.split()[1] for line in lines if line.startswith("#SBATCH ")}
    assert {"--signal=B:USR1@120", "--requeue", "--open-mode=append"} | own <= directives
    first = next(i for i, line in enumerate(lines) if line and not line.startswith("#"))
    assert not any(line.startswith("#SBATCH") for line in lines[first:]), (
        "Slurm ignores directives after the first command"
    )
