"""Jobs on several hosts compute the same as one process, and end with a message if a host or the network fails."""

import contextlib
import json
import math
import re
import time
from pathlib import Path

import pytest

import mtf_imaging as mi
from mtf_imaging.data.phantom import write_phantom
from mtf_imaging.engine.processes.addresses import Address
from tests import waiting
from tests.hosts.job import PORT, Job, run
from tests.hosts.network import network
from tests.jobs import together
from tests.jobs.launched import assert_same_weights, train_command
from tests.scores import read_scores

STEPS = 40
TIMEOUT = 30  # seconds; also of the start, in which hosts with few cores take turns
OUTAGE = 25  # seconds; longer than the 20 s after which gRPC would give up a connection
SHORT = 6  # seconds, for processes whose partners do not exist
MESH = ["--mesh_shape", "rows:6", "--layout", "x:rows"]  # for 1, 2 and 3 processes

INTACT = "The checkpoints are intact. Fix: start all processes again"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def hosts():
    """Three hosts, each with a second network interface that the others do not reach."""
    with network(3) as every:
        for number, host in enumerate(every):
            host.add_interface("eth1", f"10.78.{number}.1/24")
        yield every


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hosts")
    write_phantom(folder / "cases", 2, seed=1)
    options = {"resolution": 8, "workers": 1, "progress": False}
    mi.jobs.convert(input_dir=folder / "cases", output_dir=folder / "records", **options)
    return folder


@pytest.fixture(scope="module")
def one(hosts, folder):
    """The run of one process."""
    run(hosts[:1], *train(folder, "one"))
    return folder / "one"


def train(folder, name, steps=STEPS, *more):
    return train_command(folder, folder / name, steps, *MESH, *more)


def assert_same_run(model_dir, expected):
    assert together.losses(model_dir) == pytest.approx(together.losses(expected), rel=1e-9, abs=1e-12)
    assert_same_weights(model_dir, expected, exact=False)


def files(model_dir):
    """Returns the names of the files of a run, without what differs between any two runs."""
    paths = (path for path in model_dir.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(model_dir)).split(".out.tfevents")[0] for path in paths)


def test_training_on_two_hosts_survives_an_outage_and_equals_one_process(hosts, folder, one):
    with Job(hosts[:2], *train(folder, "two")) as job:
        job.wait_for_step(folder / "two", 6)
        hosts[1].disconnect()
        began, is_quiet = time.monotonic(), _is_quiet(job.processes)
        before = together.losses(folder / "two")
        what = "the processes to wait for each other"
        waiting.wait_until(lambda: is_quiet() and time.monotonic() - began > OUTAGE, what, job.processes, every=0.5)
        hosts[1].connect()
        ends = job.wait()
    assert [code for code, _ in ends] == [0, 0], ends
    assert len(before) < STEPS, "the outage was after the last step"
    assert_same_run(folder / "two", one)
    assert files(folder / "two") == files(one), "only process 0 writes"


def _is_quiet(processes):
    """Returns a condition: no process has computed since its last call."""
    last = [-math.inf]

    def is_quiet():
        before, last[0] = last[0], waiting.cpu_time([process.pid for process in processes])
        return last[0] - before < 0.05

    return is_quiet


def _lost(index):
    """Returns a regular expression for the loss of a process."""
    return rf"lost process {index} \(host{index}:{PORT}\)"


def test_a_run_resumes_on_any_number_of_hosts_after_each_kind_of_loss(hosts, folder, one):
    with Job(hosts[:2], *train(folder, "lost"), timeout=TIMEOUT) as job:
        job.wait_for_step(folder / "lost", 5)
        hosts[1].disconnect()
        ends = job.wait()
        hosts[1].connect()
    for number, (code, output) in enumerate(ends):
        assert code == 1
        silent = rf"(no answer|No route to host) for 3\d s\. {INTACT}"
        assert re.search(rf"mtf-imaging: {_lost(1 - number)}: {silent}", output), output
    with Job(hosts, *train(folder, "lost")) as job:
        job.wait_for_step(folder / "lost", 13)
        hosts[2].kill()
        ends = job.wait(0, 1)
    for code, output in ends:
        assert code == 1
        ended = rf"it has ended \(Connection refused\). Its output may tell why. {INTACT}"
        assert re.search(rf"mtf-imaging: {_lost(2)}: {ended}", output), output
    run(hosts[:1], *train(folder, "lost"))
    assert_same_run(folder / "lost", one)
    assert [path.name for path in folder.glob("lost/*.lock")] == []


def test_evaluation_and_prediction_on_two_hosts_equal_one_process(hosts, folder, one):
    for num in (1, 2):
        common = {"model_dir": one.name, "layout": "uneven"}
        jobs = [
            {"job": "evaluate", "output": f"scores{num}", **common},
            {"job": "predict", "output": f"labels{num}", **common},
        ]
        (folder / f"jobs{num}.json").write_text(json.dumps(jobs))
        run(hosts[:num], Path(together.__file__), folder / f"jobs{num}.json")
    assert read_scores(folder / "scores1") == read_scores(folder / "scores2")
    labels = [{path.name: path.read_bytes() for path in folder.glob(f"labels{num}/*.nii.gz")} for num in (1, 2)]
    assert len(labels[0]) == 2
    assert labels[0] == labels[1]


def test_processes_that_cannot_reach_each_other_name_the_address_and_the_reason(hosts, folder):
    hosts[1].run("ip", "route", "add", "unreachable", "10.99.0.1")
    hosts[2].run("ip", "route", "add", "blackhole", hosts[0].address)  # as a firewall that drops the answers
    cases = [
        (hosts[0], Address("host0", PORT), "nowhere", "Name or service not known|Temporary failure in name resolution"),
        (hosts[0], Address("host0", PORT + 1), "host2", "no answer"),
        (hosts[1], Address("host1", PORT), "10.99.0.1", "No route to host"),
        (hosts[2], Address("127.0.0.1", PORT), "127.0.0.1", "Connection refused"),
    ]
    with contextlib.ExitStack() as stack:
        jobs = []
        for host, own, other, _ in cases:
            job = Job([host], *train(folder, "none"), timeout=SHORT, addresses=(own, Address(other, 2230)))
            jobs.append(stack.enter_context(job))
        for job, (*_, other, reason) in zip(jobs, cases, strict=True):
            ((code, output),) = job.wait()
            assert code == 1, output
            why = rf"1 of 2 processes did not start within {SHORT} s \(process 1 \({other}:2230\): ({reason})\). Fix:"
            assert re.search(f"mtf-imaging: {why}", output), output
    hosts[2].run("ip", "route", "delete", "blackhole", hosts[0].address)
    assert not (folder / "none").exists()
