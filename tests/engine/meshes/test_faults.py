"""Lost processes and stuck exchanges of real processes: each other process ends with one message that tells why.

A test fails only if a process hangs, or ends with another message: the machine may be busy.
"""

import signal

import pytest

from tests.engine.processes import starting

pytestmark = pytest.mark.slow
TIMEOUT = 8
SCRIPT = """
import os, sys, time
import numpy as np
import tensorflow as tf
import mtf_imaging as mi
from tests.engine.processes.starting import run_main, start_together

mtf, mode = mi.mtf, os.environ["MODE"]

def net(image):
    for _ in range(4):
        image = mi.ops.max_pool2d(image, 3, padding="SAME", strides=1)
        image -= mtf.reduce_sum(image) * 1e-3
    return image

def main():
    start_together()
    runtime = mi.meshes.join()
    number = runtime.processes.index
    is_last = number == 2
    first, second = (mi.Program(net, {"image": "batch:1,x:24,y:8,channels:2"}, "rows:3", "x:rows") for _ in range(2))
    image = np.ones([1, 24, 8, 2], np.float32)
    for program in (first, second):
        program(image=image)
    print("ready", flush=True)
    while mode == "calls":
        first(image=image)
    if mode in ("barrier", "barrier after sleep"):
        if is_last:
            time.sleep(1000)
        runtime.barrier()
    if mode == "error" and is_last:
        raise ZeroDivisionError("of the test")
    if mode == "no more calls":
        for _ in range(3 if is_last else 6):
            first(image=image)
    if mode in ("error", "no more calls") and not is_last:
        first(image=image)
    if mode == "other programs":
        (second if is_last else first)(image=image)
    if mode == "other calls":
        runtime.barrier() if is_last else first(image=image)
    if mode == "other shapes":
        size = 8 + is_last
        program = mi.Program(net, {"image": f"batch:1,x:24,y:{size},channels:2"}, "rows:3", "x:rows")
        program(image=np.ones([1, 24, size, 2], np.float32))
    if mode == "blocked":
        wait = lambda x: tf.py_function(lambda y: time.sleep(1000) or y, [x], tf.float32)
        def blocked(image):
            fixed = lambda x: tf.ensure_shape(wait(x), x.shape)
            y = mtf.slicewise(fixed, [image], image.shape, tf.float32, image.shape.dims)
            return mi.ops.max_pool2d(y, 3, padding="SAME", strides=1)
        program = mi.Program(blocked, {"image": "batch:1,x:24,y:8,channels:2"}, "rows:3", "x:rows")
        print("blocked", flush=True)
        program(image=image)

run_main(main)
"""


def name(group, index):
    return f"process {index} ({group.addresses[index]})"


@pytest.mark.parametrize(
    ("mode", "number", "why"),
    [
        ("calls", signal.SIGKILL, "it has ended (Connection refused). "),
        ("calls", signal.SIGSTOP, "no answer for "),
        ("barrier", signal.SIGKILL, "it has ended (Connection refused). "),
        ("barrier", signal.SIGSTOP, "no answer for "),
    ],
)
def test_the_others_name_a_process_that_was_killed_or_stopped(tmp_path, mode, number, why):
    with starting.Group(tmp_path, SCRIPT, 3, timeout=TIMEOUT, environ={"MODE": mode}) as group:
        group.wait_for("ready")
        group.send(2, number)
        for end in group.wait(indices=[0, 1]).values():
            assert end.message().startswith(f"lost {name(group, 2)}: {why}")
            assert "Fix: start all processes again; training resumes from the last checkpoint." in end.message()


@pytest.mark.parametrize(("mode", "code"), [("error", 1), ("no more calls", 0)])
def test_the_others_name_a_process_that_ended(tmp_path, mode, code):
    with starting.Group(tmp_path, SCRIPT, 3, timeout=TIMEOUT, environ={"MODE": mode}) as group:
        ends = group.wait()
        assert ends[2].code == code, ends[2].err
        assert ("ZeroDivisionError: of the test" in ends[2].err) == bool(code)
        for end in (ends[0], ends[1]):
            assert end.message().startswith(f"lost {name(group, 2)}: it has ended")


@pytest.mark.parametrize("mode", ["other programs", "other calls"])
def test_processes_that_wait_for_each_other_end(tmp_path, mode):
    with starting.Group(tmp_path, SCRIPT, 3, timeout=TIMEOUT, environ={"MODE": mode}) as group:
        for end in group.wait().values():
            assert "and none of them computes: " in end.message()
            assert all(name(group, i) in end.message() for i in range(3))
            assert "Fix: make all processes call the same programs in the same order" in end.message()


def test_programs_with_other_shapes_are_an_error_in_every_process(tmp_path):
    with starting.Group(tmp_path, SCRIPT, 3, timeout=TIMEOUT, environ={"MODE": "other shapes"}) as group:
        for end in group.wait().values():
            assert ": an exchange with others failed: Shape mismatch in the collective" in end.message()


def test_waiting_for_a_process_that_sleeps_ends_after_several_timeouts(tmp_path):
    environ = {"MODE": "barrier after sleep"}
    with starting.Group(tmp_path, SCRIPT, 3, timeout=TIMEOUT, environ=environ) as group:
        for end in group.wait(indices=[0, 1]).values():
            assert f"{name(group, 2)} is outside a call, after " in end.message()


def test_a_call_that_cannot_be_interrupted_ends_with_the_process(tmp_path):
    with starting.Group(tmp_path, SCRIPT, 3, timeout=TIMEOUT, environ={"MODE": "blocked"}) as group:
        group.wait_for("blocked")
        group.send(2, signal.SIGKILL)
        for end in group.wait(indices=[0, 1]).values():
            assert end.message().startswith(f"lost {name(group, 2)}: it has ended")
