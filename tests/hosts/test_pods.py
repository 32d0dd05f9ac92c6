"""The Job of docs/kubernetes/train.yaml as two pods on two hosts: stopped, moved to other addresses, and resumed."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from tests import waiting
from tests.hosts import pods
from tests.hosts.network import network

ROOT = Path(__file__).parents[2]
NUM = 2
SMALL = ("--gin.UNet3D.base_filters=2", "--gin.UNet3D.depth=1", "--gin.UNet3D.convs=1")
FAR = 100_000  # steps

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path):
    """Returns a folder with the records of the Job, and with the program of the image."""
    write_phantom(tmp_path / "cases", 2, seed=1)
    options = {"resolution": 8, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=tmp_path / "cases", output_dir=tmp_path / "records", **options)
    program = tmp_path / "bin/mtf-imaging"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mtf_imaging.cli.main "$@"\n')
    program.chmod(0o755)
    return tmp_path


@contextlib.contextmanager
def started(folder, hosts, steps):
    """Starts pod i on the i-th host; yields their `Popen`s and logs."""
    job = pods.read_job()["Job"]
    pods.write_names(job, hosts)
    words = [*pods.entry_point(), "train", "--data_dir", folder / "records", "--model_dir", folder / "run", *SMALL]
    words += ["--gin_file=unet3d_demo", "--mesh_shape=rows:2", "--layout=x:rows", "--num_steps", steps]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CONFIG", "SLURM_"))}
    clean |= {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    logs = [folder / f"pod-{index}-{steps}.log" for index in range(NUM)]
    with contextlib.ExitStack() as stack:
        processes = []
        for index, (host, log) in enumerate(zip(hosts, logs, strict=True)):
            output = stack.enter_context(log.open("w"))
            environment = clean | pods.variables(job, index, NUM)
            process = host.start(
                *pods.as_process_1(*words), env=environment, stdout=output, stderr=subprocess.STDOUT, cwd=folder
            )
            processes.append(stack.enter_context(pods.killed_with_namespace(process)))
        yield processes, logs


def read_steps(losses):
    """Returns the numbers of the steps in losses.csv."""
    return [int(line.split(",")[0]) for line in losses.read_text().splitlines()[1:]]


def test_a_stopped_job_resumes_in_pods_with_other_addresses(folder):
    losses = folder / "run/losses.csv"

    def has_rows():
        return losses.is_file() and len(read_steps(losses)) > 5

    with network(NUM) as hosts:
        with started(folder, hosts, FAR) as (processes, logs):
            waiting.wait_until(has_rows, "five steps", processes, [*logs, losses])
            os.kill(pods.find_process_1(processes[1], pods.entry_point()[0]), signal.SIGTERM)
            assert [waiting.wait_for_end(process, logs=logs) for process in processes] == [75, 75]
        done = len(read_steps(losses))
        assert (folder / f"run/ckpt-{done}.index").is_file()

        with started(folder, hosts[::-1], done + 3) as (processes, logs):
            assert [waiting.wait_for_end(process, logs=logs) for process in processes] == [0, 0]
    assert read_steps(losses) == list(range(done + 3))
    assert f"joined {NUM} processes on {NUM} hosts" in logs[0].read_text()
