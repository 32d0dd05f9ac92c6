"""`train --profile_steps` traces exactly the requested steps."""

import logging

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from mtf_imaging.errors import ConfigError
from mtf_imaging.training.observers.trace import StepTrace, parse_steps
from mtf_imaging.training.optimizers import SGD
from tests.training import linear
from tests.training.linear import Killed, killed_at


def run(folder, num_steps, steps, batches=linear.batches):
    observers = [StepTrace(folder / "train", parse_steps(steps, num_steps))]
    linear.run(folder, num_steps, linear.program(SGD(0.05)), lambda _: observers, batches, every=2)


def traced_steps(folder):
    """Returns the step numbers that TensorBoard's profiler shows for the traces in a folder."""
    steps = []
    for path in sorted(folder.glob("train/plugins/profile/*/*.xplane.pb")):
        for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes:
            names = {number: data.name for number, data in plane.event_metadata.items()}
            stats = {number: data.name for number, data in plane.stat_metadata.items()}
            for event in (event for line in plane.lines for event in line.events):
                if names[event.metadata_id] == "train":
                    steps += [s.int64_value for s in event.stats if stats[s.metadata_id] == "step_num"]
    return sorted(steps)


def test_the_requested_steps_are_traced(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="mtf_imaging")
    run(tmp_path, 6, "2:5")
    assert traced_steps(tmp_path) == [2, 3, 4]
    assert f"wrote a trace of steps 2 to 4 to {tmp_path / 'train'}" in caplog.text


def test_the_first_step_is_traced_too(tmp_path):
    run(tmp_path, 2, "0:1")
    assert traced_steps(tmp_path) == [0]


def test_a_run_that_ends_early_keeps_its_trace(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, 8, "2:6", killed_at(4))
    assert traced_steps(tmp_path)[:2] == [2, 3]  # step 4 had begun


def test_a_run_past_the_requested_steps_warns(tmp_path, caplog):
    run(tmp_path, 4, "0:1")
    caplog.clear()
    run(tmp_path, 6, "1:4")
    assert traced_steps(tmp_path) == [0]
    assert "nothing to trace: the last step to trace is 3, but the run is at step 4" in caplog.text


def test_a_run_that_resumes_among_the_requested_steps_traces_the_rest(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, 6, "5:6", killed_at(3))  # the last checkpoint is that of step 2
    run(tmp_path, 6, "1:5")
    assert traced_steps(tmp_path) == [2, 3, 4]


@pytest.mark.parametrize("steps", ["a", "10", "-1:3", "1:2:3", "", "13:10", "5:5", "18:21"])
def test_an_invalid_range_of_steps_is_refused(steps):
    text = f"profile_steps '{steps}' is not a range of steps of the run, which has the steps 0 to 19. Fix: give 10:13"
    with pytest.raises(ConfigError, match=text):
        parse_steps(steps, 20)
