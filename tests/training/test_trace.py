"""`train --profile_steps`: a trace of the steps asked for, and of no others."""

import logging

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from mtf_imaging.errors import ConfigError
from mtf_imaging.training.checkpoints.checkpoints import Checkpoints
from mtf_imaging.training.loop import train
from mtf_imaging.training.observers.trace import StepTrace, parse_steps
from mtf_imaging.training.optimizers import SGD
from tests.training import linear
from tests.training.test_loop import Killed, killed_at


def run(folder, num_steps, steps, batches=linear.batches):
    program = linear.program(SGD(0.05))
    checkpoints = Checkpoints(folder, program, every=2)
    checkpoints.restore()
    observers = [StepTrace(folder / "train", parse_steps(steps, num_steps))]
    options = {"checkpoints": checkpoints, "observers": observers, "progress": False}
    train(program=program, batches=batches, num_steps=num_steps, **options)


def traced_steps(folder):
    """Numbers of the steps in the traces of a folder, each of which TensorBoard's profiler would show."""
    found = []
    for path in sorted(folder.glob("train/plugins/profile/*/*.xplane.pb")):
        for plane in xplane_pb2.XSpace.FromString(path.read_bytes()).planes:
            names = {number: data.name for number, data in plane.event_metadata.items()}
            stats = {number: data.name for number, data in plane.stat_metadata.items()}
            for event in (event for line in plane.lines for event in line.events):
                if names[event.metadata_id] == "train":
                    found += [s.int64_value for s in event.stats if stats[s.metadata_id] == "step_num"]
    return sorted(found)


def test_the_steps_asked_for_are_traced(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="mtf_imaging")
    run(tmp_path, 6, "2:5")
    assert traced_steps(tmp_path) == [2, 3, 4]
    assert f"steps 2 to 4 are traced in {tmp_path / 'train'}" in caplog.text


def test_the_first_step_is_traced_too(tmp_path):
    run(tmp_path, 2, "0:1")
    assert traced_steps(tmp_path) == [0]


def test_a_run_that_ends_in_between_leaves_what_it_traced(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, 8, "2:6", killed_at(4))
    assert traced_steps(tmp_path)[:2] == [2, 3]  # the fourth was begun


def test_a_run_that_goes_on_past_them_says_that_nothing_is_traced(tmp_path, caplog):
    run(tmp_path, 4, "0:1")
    caplog.clear()
    run(tmp_path, 6, "1:4")
    assert traced_steps(tmp_path) == [0]
    assert "nothing is traced: of the steps to trace 3 is the last, and the run is at 4" in caplog.text


def test_a_run_that_goes_on_among_them_traces_the_rest(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, 6, "5:6", killed_at(3))  # the last checkpoint is of step 2
    run(tmp_path, 6, "1:5")
    assert traced_steps(tmp_path) == [2, 3, 4]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("a", "profile_steps 'a' is no range of steps. Fix: as 10:13 for steps 10, 11 and 12."),
        ("10", "profile_steps '10' is no range of steps."),
        ("-1:3", "profile_steps '-1:3' is no range of steps."),
        ("1:2:3", "profile_steps '1:2:3' is no range of steps."),
        ("", "profile_steps '' is no range of steps."),
        ("13:10", "holds no step: its end, 10, is not one of them and must be above its first, 13. Fix: 13:16 for 3"),
        ("5:5", "profile_steps '5:5' holds no step"),
        (
            "18:21",
            "goes on to step 20, but of 20 steps the last is 19. Fix: an end of at most 20, or more num_steps.",
        ),
    ],
)
def test_what_is_no_range_of_steps_is_told_with_a_fix(steps, message):
    with pytest.raises(ConfigError) as caught:
        parse_steps(steps, 20)
    assert message in str(caught.value)
