"""Several processes stop after the same step, and process 0 decides. Threads stand for the processes."""

import random
import threading
from pathlib import Path

import numpy as np
import pytest

import mtf_imaging as mi
from mtf_imaging.engine.meshes.group import Group
from mtf_imaging.engine.processes.processes import Processes
from mtf_imaging.training import stopping
from mtf_imaging.training.stopping import AgreedStop
from tests import waiting


class Shared:
    """The exchanges of threads that stand for processes."""

    def __init__(self, num):
        self.num, self.barrier, self.values = num, threading.Barrier(num, timeout=waiting.PATIENCE), [None] * num
        self.exchanges = 0

    def gather(self, index, value):
        self.values[index] = value
        self.barrier.wait()
        every = list(self.values)
        self.exchanges += index == 0
        self.barrier.wait()
        return every


class Joined:
    """A `Runtime` of a thread."""

    def __init__(self, shared, index):
        self._shared, self._index = shared, index
        self.processes = Processes([("host", 1000 + i) for i in range(shared.num)], index)

    def gather(self, text):
        return self._shared.gather(self._index, text)

    def gather_numbers(self, numbers):
        return np.array(self._shared.gather(self._index, numbers))

    def broadcast(self, text):
        return self.gather(text)[0]

    def barrier(self):
        self.gather("")


def together(num, run):
    """Calls `run(group)` in threads, and returns the results and the number of exchanges."""
    shared, results = Shared(num), [None] * num

    def call(index):
        try:
            results[index] = run(Group(Joined(shared, index)))
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=call, args=[index]) for index in range(num)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results, shared.exchanges


@pytest.mark.parametrize("asked_at", [0, 1, 7, 100])
def test_all_processes_stop_before_the_same_step(asked_at):
    def run(group):
        steps = 0

        def stop():
            return "SIGTERM" if steps >= asked_at and index == 2 else None

        index = group._joined._index
        agreed = AgreedStop(stop, group)
        while (why := agreed()) is None:
            steps += 1
            assert steps < 10**6
        assert agreed() == agreed.now() == why  # the reason stays
        return steps, why

    results, exchanges = together(3, run)
    assert len({*results}) == 1, results
    steps, why = results[0]
    assert why == "SIGTERM"
    assert steps >= asked_at
    assert exchanges < steps + 10


def test_fast_steps_rarely_exchange():
    def run(group):
        agreed = AgreedStop(lambda: None, group)
        for _ in range(5000):
            assert agreed() is None

    results, exchanges = together(2, run)
    assert results == [None, None]
    assert exchanges < 100


def test_processes_of_different_speeds_exchange_at_the_same_steps_of_process_0(monkeypatch):
    """A step takes 1 / 8 s in process 0, so four steps take half a second, and less in process 1."""
    clock = threading.local()
    monkeypatch.setattr(stopping.time, "monotonic", lambda: getattr(clock, "now", 0.0))

    def run(group):
        asked = []
        step = 0

        def stop():
            asked.append(step)

        agreed = AgreedStop(stop, group)
        while len(asked) < 6:
            step += 1
            clock.now = step * (0.125 if group.is_first else 0.03125)
            agreed()
        return asked

    results, _ = together(2, run)
    assert results[0] == results[1]
    assert np.diff(results[0])[-4:].tolist() == [4] * 4


def test_now_exchanges_in_every_call():
    def run(group):
        left = [random.Random(group.is_first).randrange(3, 9)]
        asked = 0

        def stop():
            left[0] -= 1
            return "enough" if left[0] < 0 else None

        agreed = AgreedStop(stop, group)
        while agreed.now() is None:
            asked += 1
        return asked

    (first, second), _ = together(2, run)
    assert first == second == min(random.Random(flag).randrange(3, 9) for flag in (True, False))


def test_process_0_decides_and_its_errors_are_those_of_all():
    def run(group):
        assert group.first(lambda: {"a": [1, "b"]}) == {"a": [1, "b"]}

        def fail():
            raise mi.CheckpointError("the disk is full", ["model_dir"])

        group.first(fail)

    results, _ = together(3, run)
    assert {type(error) for error in results} == {mi.CheckpointError}
    assert {str(error) for error in results} == {"the disk is full"}
    assert {error.settings for error in results} == {("model_dir",)}


def test_an_error_of_another_library_names_process_0():
    def run(group):
        group.first(lambda: Path("/no/such/file").read_text())

    (first, second), _ = together(2, run)
    assert isinstance(first, FileNotFoundError)
    assert isinstance(second, mi.ClusterError)
    assert str(second).startswith("process 0 (host:1000) failed: /no/such/file: No such file or directory. Fix: see")


def test_a_process_alone_calls_its_own_functions():
    alone = Group(None)
    assert alone.first(lambda: 3) == 3
    assert alone.gather("a") == ["a"]
    assert AgreedStop(lambda: "enough", alone)() == "enough"
    assert AgreedStop(lambda: None, alone).now() is None
