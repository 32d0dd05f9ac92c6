"""Commands of several processes on the nodes of a real Slurm cluster, without settings other than options of Slurm."""

import os
import re
import sys

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from tests import forked, waiting
from tests.hosts.slurm_cluster import slurm_cluster
from tests.jobs.launched import ROOT, assert_same_weights, train_command
from tests.jobs.together import losses
from tests.scores import read_scores

pytestmark = pytest.mark.slow
STEPS = 40
SCRIPT = ROOT / "docs/slurm/several_nodes.sbatch"
SMALL = ["--ntasks-per-node=2", "--gpus-per-node=2", "--cpus-per-task=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with records, and the results of one process."""
    folder = tmp_path_factory.mktemp("slurm")
    write_phantom(folder / "cases", 2, seed=1)
    options = {"resolution": 8, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=folder / "cases", output_dir=folder / "records", **options)
    forked.run("mtf_imaging.cli.main", *train_command(folder, folder / "one", STEPS))
    forked.run("mtf_imaging.cli.main", *evaluate_command(folder, folder / "one_scores"))
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two nodes, with mtf-imaging on PATH."""
    programs = tmp_path_factory.mktemp("bin")
    program = programs / "mtf-imaging"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mtf_imaging.cli.main "$@"\n')
    program.chmod(0o755)
    variables = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    with slurm_cluster(2, cpus=4, **variables) as cluster:
        yield cluster


def evaluate_command(folder, output):
    words = ["evaluate", "--input_dir", folder / "cases", "--output_dir", output, "--model_dir", folder / "one"]
    return [*words, "--mesh_shape", "rows:2", "--layout", "x:rows"]


def assert_same_run(model_dir, expected):
    np.testing.assert_allclose(losses(model_dir), losses(expected), rtol=1e-9, atol=1e-12)
    assert_same_weights(model_dir, expected, exact=False)


ASK = """
import socket
from mtf_imaging.errors import ConfigError
from mtf_imaging.engine.processes.processes import find_processes
try:
    processes = find_processes()
    print("task", processes.index, socket.gethostname(), *processes.addresses)
except ConfigError as error:
    print(error)
"""
SALLOC = ["salloc", "-n1", "-N1", "-w", "host0", ":", "-n2", "-N1", "-w", "host1", "srun"]


@pytest.mark.parametrize(
    ("words", "tasks"),
    [
        (["srun", "-N2", "-n3"], [2, 1]),
        (["srun", "-N2", "-n4", "--cpus-per-task=2"], [2, 2]),
        (["salloc", "-N2", "-n4", "srun", "-n3", "--overlap"], [2, 1]),
        (["salloc", "-N2", "-n4", "srun", "-N1", "-n2", "--nodelist=host0"], [2, 0]),
        ([*SALLOC, "--het-group=0,1"], [1, 2]),
    ],
    ids=["odd", "cpus", "overlap", "one node", "heterogeneous"],
)
def test_the_addresses_of_tasks(cluster, words, tasks):
    lines = [line.split() for line in cluster.run(*words, sys.executable, "-c", ASK).splitlines()]
    found = sorted((int(index), host, *addresses) for word, index, host, *addresses in lines if word == "task")
    hosts = [f"host{index}" for index, num in enumerate(tasks) for _ in range(num)]
    assert [(index, host) for index, host, *_ in found] == list(enumerate(hosts))
    assert {len({*addresses}) for _, _, *addresses in found} == {len(hosts)}
    assert [address.partition(":")[0] for address in found[0][2:]] == hosts
    assert len({each[2:] for each in found}) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["srun", "-N2", "-n4", "--distribution=cyclic"], "Tasks must be placed in blocks."),
        (
            ["salloc", "-n1", "-N1", "-w", "host1", ":", "-n2", "-N1", "-w", "host0", "srun", "--het-group=0,1"],
            "task 0 (SLURM_PROCID) runs on node host1 (SLURMD_NODENAME), but",
        ),
    ],
)
def test_tasks_in_another_order_are_refused(cluster, words, text):
    assert text in cluster.run(*words, sys.executable, "-c", ASK)


def test_srun_on_two_nodes_trains_as_one_process_does(cluster, folder):
    words = train_command(folder, folder / "two_nodes", STEPS)
    output = cluster.run("srun", "-N2", "--ntasks-per-node=2", "mtf-imaging", *words)
    assert "joined 4 processes on 2 hosts" in output
    assert_same_run(folder / "two_nodes", folder / "one")


def test_nodes_with_different_numbers_of_tasks(cluster, folder):
    words = train_command(folder, folder / "three", STEPS, "--mesh_shape", "rows:3", "--layout", "x:rows")
    output = cluster.run("srun", "-N2", "-n3", "mtf-imaging", *words)
    assert "joined 3 processes on 2 hosts" in output
    assert_same_run(folder / "three", folder / "one")


def test_evaluation_on_two_nodes_writes_the_files_of_one_process(cluster, folder):
    output = cluster.run("srun", "-N2", "mtf-imaging", *evaluate_command(folder, folder / "two_scores"))
    assert "joined 2 processes on 2 hosts" in output
    assert read_scores(folder / "two_scores") == read_scores(folder / "one_scores")
    contents = [
        {path.name: path.read_bytes() for path in (folder / name / "predictions").glob("*.nii.gz")}
        for name in ("two_scores", "one_scores")
    ]
    assert len(contents[0]) == 2
    assert contents[0] == contents[1]


class Job:
    """A job that trains with the script of the documentation."""

    def __init__(self, cluster, folder, model_dir, *options, **variables):
        self._cluster, self.model_dir, self.log = cluster, folder / model_dir, folder / f"{model_dir}.log"
        words = [*SMALL, *options, f"--output={self.log}", SCRIPT, *train_command(folder, self.model_dir, STEPS)[1:]]
        # The settings of a site, which the script overrides.
        site = {"SLURM_KILL_BAD_EXIT": "1", "SLURM_WAIT": "1"}
        self.number = int(cluster.run("sbatch", "--parsable", *words, variables=site | variables))

    def wait_for_step(self, step):
        """Waits until the run has logged the loss of a step."""
        path = self.model_dir / "losses.csv"
        waiting.wait_until(
            lambda: path.is_file() and path.read_text().count("\n") > step + 1, f"step {step}", logs=[self.log, path]
        )

    def wait_for_state(self, *states):
        """Waits until the job is in one of some states, and returns it."""
        logs = [self.log, self.model_dir / "losses.csv"]
        return waiting.wait_until(lambda: self._find_state(states), f"the state {states}", logs=logs, every=0.5)

    def wait(self):
        """Returns the state of the job at its end, how often it was queued again, and its log."""
        state = self.wait_for_state("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL")
        return state, int(self._cluster.job(self.number)["Restarts"]), self.log.read_text()

    def _find_state(self, states):
        state = self._cluster.job(self.number)["JobState"]
        return state if state in states else None


def test_a_job_on_two_nodes_is_queued_again_after_the_signal_and_resumes(cluster, folder):
    job = Job(cluster, folder, "signaled")
    job.wait_for_step(4)
    # What --signal=B:USR1@120 does two minutes before the end; the time of a job is a number of minutes.
    cluster.run("scancel", "--batch", "--signal=USR1", job.number)
    state, restarts, log = job.wait()
    assert (state, restarts) == ("COMPLETED", 1), log
    stopped = int(re.search(r"SIGUSR1: stopped after (\d+) steps", log)[1])
    assert stopped < STEPS
    assert f"job {job.number}: training exited with 75 and resumes when the job runs again" in log
    assert_same_run(job.model_dir, folder / "one")


def test_a_job_whose_node_fails_is_queued_again_and_resumes_on_the_other_node(cluster, folder):
    host = cluster.hosts[1]
    job = Job(cluster, folder, "lost_node", MTF_IMAGING_TIMEOUT="30")
    job.wait_for_step(9)
    host.power_off()
    try:
        lost = re.compile(r"lost process [23] \(host1:\d+\)")
        waiting.wait_until(lambda: lost.search(job.log.read_text()), "the lost process", logs=[job.log])
        # What Slurm does by itself after SlurmdTimeout.
        cluster.run("scontrol", "update", "NodeName=host1", "State=DOWN", "Reason=failed")
        job.wait_for_state("PENDING")
        assert cluster.job(job.number)["Restarts"] == "1"
        cluster.run("scancel", job.number)
        job = Job(cluster, folder, "lost_node", "--nodes=1")
        state, _, log = job.wait()
        assert state == "COMPLETED", log
        assert re.findall("joined.*", log) == ["joined 4 processes on 2 hosts", "joined 2 processes on 1 host"]
        assert_same_run(job.model_dir, folder / "one")
    finally:
        host.connect()
        cluster.start_node(host)
        cluster.wait_until_idle()
