"""Processes that run one program: their start, what they compare, and what stays right over many calls."""

import re
import socket

import pytest

from tests.engine.processes import starting

PRELUDE = """
import os, sys, threading, time
import numpy as np
import mtf_imaging as mi
from tests.engine.processes.starting import run_main, start_together

mtf = mi.mtf
"""
JOIN = PRELUDE + "run_main(mi.meshes.join)\n"


AGREE = (
    PRELUDE
    + """
def main():
    start_together()
    runtime = mi.meshes.join()
    assert mi.meshes.join() is runtime
    number = runtime.processes.index
    print(runtime.broadcast(f"text of {number}, é"), flush=True)
    assert runtime.broadcast("") == ""
    for mesh in ("rows:2", "rows:4", "rows:5"):
        try:
            mi.Program(lambda x: x, {"x": "x:20"}, mesh, "x:rows", "collective")
        except mi.ConfigError as error:
            print(error, flush=True)
    runtime.agree({"the data": "records", "the configuration": "same"})
    runtime.agree({"the data": "records", "the configuration": f"depends on {number == 1}"})

run_main(main)
"""
)


@pytest.mark.slow
def test_processes_agree_before_they_train(tmp_path):
    with starting.Group(tmp_path, AGREE, 3, timeout=600) as group:
        ends = group.wait()
    name = [f"process {i} ({address})" for i, address in enumerate(group.addresses)]
    for end in ends.values():
        assert end.message(2) == (
            f"the processes disagree about the configuration: {name[1]} differs from {name[0]}. Fix: start all "
            "processes with the same code, command line, files and data."
        )
        lines = end.out.splitlines()
        assert lines[0] == "text of 0, é"
        assert [line.split(":")[0] for line in lines[1:]] == ["mesh 'rows", "mesh 'rows", "mesh 'rows"]
        assert "cannot be divided equally among 3 processes" in lines[1]


CALLS = (
    PRELUDE
    + """
def num_threads():
    return len(os.listdir("/proc/self/task"))

def main():
    start_together()
    runtime = mi.meshes.join()
    image = np.arange(128, dtype=np.float32).reshape([1, 16, 8])[..., None]
    def net(image):
        return mi.ops.max_pool2d(image, 3, padding="SAME", strides=1) + mtf.reduce_sum(image)
    program = mi.Program(net, {"image": "batch:1,x:16,y:8,channels:1"}, "rows:2", "x:rows")
    for i in range(1100):
        result = program(image=image)
        if i == 99:
            before, threads = num_threads(), threading.active_count()
    assert num_threads() <= before + 8, (before, num_threads())  # gRPC adds some for its connections
    assert threading.active_count() == threads
    np.testing.assert_array_equal(result[0, 2, 2, 0], image[0, 3, 3, 0] + image.sum())
    if runtime.processes.is_first:  # evaluates alone, while the other process ends
        end = time.monotonic() + 6
        while time.monotonic() < end:
            sum(range(10000))
    print("done", flush=True)

run_main(main)
"""
)


@pytest.mark.slow
def test_many_calls_start_no_threads_and_processes_end_one_after_another(tmp_path):
    with starting.Group(tmp_path, CALLS, 2, timeout=3) as group:
        ends = group.wait()
    for end in ends.values():
        assert (end.code, end.out) == (0, "done\n"), end.err
        assert "mtf-imaging" not in end.err


@pytest.mark.slow
def test_a_process_that_does_not_come_is_named_by_all_others(tmp_path):
    script = PRELUDE + "start_together()\nrun_main(mi.meshes.join)\n"
    with starting.Group(tmp_path, script, 3, timeout=4, skip=[1]) as group:
        (tmp_path / "here-1").touch()
        ends = group.wait()
    for end in ends.values():
        text = end.message(1)
        name = f"process 1 ({group.addresses[1]})"
        assert text.startswith(f"1 of 3 processes did not start within 4 s ({name}: Connection refused). Fix: ")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_in_use_ends_a_process_at_once(tmp_path, kind):
    with socket.socket(socket.AF_INET, kind) as other:
        other.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            other.listen()
        port = other.getsockname()[1]

        def use(_, config):
            config["cluster"]["worker"][0] = f"127.0.0.1:{port}"

        with starting.Group(tmp_path, JOIN, 2, timeout=600, edit=use, skip=[1]) as group:
            text = group.wait()[0].message(2)
    assert re.fullmatch(rf"process 0 \(127.0.0.1:{port}\): (UDP )?port {port} is in use on this host. Fix: .*", text)


def add_process(index, config):
    if index == 1:
        config["cluster"]["worker"].append("127.0.0.1:1")


@pytest.mark.slow
def test_processes_with_different_lists_end(tmp_path):
    script = PRELUDE + "start_together()\nrun_main(mi.meshes.join)\n"
    with starting.Group(tmp_path, script, 2, timeout=600, edit=add_process) as group:
        (tmp_path / "here-2").touch()
        for end in group.wait().values():
            assert "was started with another list of processes than process" in end.message(2)


DELAYS = (
    PRELUDE
    + """
import random
import tensorflow as tf
from mtf_imaging.engine.meshes.transport.between_processes import BetweenProcesses

collective = BetweenProcesses._collective

def delayed(value):
    def sleep(x):
        time.sleep(random.random() * 0.02)
        return x
    with tf.device("CPU:0"):
        result = tf.py_function(sleep, [value], value.dtype)
    result.set_shape(value.shape)
    return result

def delayed_collective(self, op, value, *args, **options):
    if tf.executing_eagerly():
        return collective(self, op, value, *args, **options)
    return delayed(collective(self, op, delayed(value), *args, **options))

def net(image, kernel):
    x = mi.ops.conv2d(image, kernel)
    for _ in range(3):
        x = mi.ops.max_pool2d(x, 7, padding="SAME", strides=1)  # the last slices do not read all halos
        x = mi.ops.avg_pool2d(x, 3, padding="SAME", strides=1)
        x = x / (mtf.reduce_max(x) + mtf.reduce_sum(mtf.square(x)))
    return x, mtf.reduce_sum(x)

INPUTS = {"image": "batch:1,x:10,y:9,channels:2", "kernel": "fx:7,fy:3,channels:2,filters:2"}

def main():
    start_together()
    runtime = mi.meshes.join()
    draw = np.random.RandomState(0).rand
    values = {"image": draw(1, 10, 9, 2).astype("f"), "kernel": draw(7, 3, 2, 2).astype("f")}
    expected = mi.Program(net, INPUTS, "", "", "stacked")(**values)
    BetweenProcesses._collective = delayed_collective
    random.seed(os.getpid())
    for mesh, layout in (("rows:4", "x:rows"), ("rows:2,cols:2", "x:rows,y:cols")):
        program = mi.Program(net, INPUTS, mesh, layout)
        for _ in range(20):
            for value, whole in zip(program(**values), expected):
                np.testing.assert_allclose(value, whole, rtol=2e-5, atol=1e-6)
    print("equal", flush=True)

run_main(main)
"""
)


@pytest.mark.slow
def test_random_delays_change_no_result_and_never_deadlock(tmp_path):
    assert starting.run(tmp_path, DELAYS, 4, timeout=60) == ["equal\n"] * 4


MANY = (
    PRELUDE
    + """
def main():
    start_together()
    runtime = mi.meshes.join()
    image = np.arange(48, dtype=np.float32).reshape([1, 24, 1, 2])
    def net(image):
        return mi.ops.avg_pool2d(image, (3, 1), padding="SAME", strides=1), mtf.reduce_sum(image)
    program = mi.Program(net, {"image": "batch:1,x:24,y:1,channels:2"}, "rows:12", "x:rows")
    pooled, total = program(image=image)
    np.testing.assert_array_equal(pooled[0, 1:-1], image[0, 1:-1])
    assert float(total) == image.sum()
    runtime.agree({"the weather": "rain" if runtime.processes.index == 10 else "sun"})

run_main(main)
"""
)


@pytest.mark.slow
def test_twelve_processes_have_their_slices_in_order(tmp_path):
    """TensorFlow orders a group by the names of its tasks: 0, 1, 10, 11, 2."""
    with starting.Group(tmp_path, MANY, 12, timeout=600) as group:
        ends = group.wait()
    for end in ends.values():
        assert f"disagree about the weather: process 10 ({group.addresses[10]}) differs from" in end.message(2)
