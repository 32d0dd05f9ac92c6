"""Patches of mesh_tensorflow for the installed TensorFlow: its own tests pass, and nothing else changes."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.python.framework import ops

from mtf_imaging.engine import compat

# {module of mesh_tensorflow: number of tests}
UPSTREAM = {"ops_test": 63, "utils_test": 2, "test_utils_test": 4, "simd_mesh_impl_test": 12, "layers_test": 22}


def test_tensorflow_2_behavior_stays_on():
    assert compat.mtf.Dimension("x", 2).size == 2
    assert tf.executing_eagerly()
    assert tf.compat.v1.resource_variables_enabled()
    assert tf.compat.v1.control_flow_v2_enabled()


def test_a_second_import_changes_nothing():
    before = tf1.estimator, ops.register_tensor_conversion_function, compat.mtf
    importlib.reload(compat)
    assert before == (tf1.estimator, ops.register_tensor_conversion_function, compat.mtf)


def test_existing_names_of_tensorflow_are_not_replaced(monkeypatch):
    own = object()
    monkeypatch.setattr(tf1, "estimator", own)
    monkeypatch.setattr(ops, "register_tensor_conversion_function", own)
    importlib.reload(compat)
    assert tf1.estimator is own
    assert ops.register_tensor_conversion_function is own


@pytest.mark.slow
@pytest.mark.parametrize(("module", "number"), UPSTREAM.items())
def test_the_tests_of_mesh_tensorflow_pass(module, number):
    runner = Path(__file__).with_name("upstream_tests.py")
    run = subprocess.run([sys.executable, runner, module], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    counts = json.loads(run.stdout.splitlines()[-1])
    assert counts["ran"] == number > counts["skipped"]
    assert not counts["broken"], run.stderr[-4000:]


def _constants(graph):
    return [op for op in graph.get_operations() if op.type == "Const"]


def test_equal_constants_of_a_device_are_one_node():
    with tf.Graph().as_default() as graph, compat.shared_constants():
        x = tf.zeros([2, 3]) + 1.5
        y = tf.reshape(x, [3, 2]) + tf.constant(1.5)
        tf.cast(tf.reshape(x, [6, 1]), tf.float64) + 1.5
        with tf.device("CPU:1"):
            tf.reshape(y, [3, 2]) + 1.5
    values = [
        (tf.make_ndarray(op.get_attr("value")).tolist(), op.outputs[0].dtype, op.device) for op in _constants(graph)
    ]
    assert len(values) == len(set(map(str, values)))
    assert [value for value, dtype, _ in values if dtype == tf.float32 and value == 1.5] == [1.5, 1.5], "two devices"


def test_shared_constants_do_not_wait_for_the_operations_that_their_first_user_waits_for():
    @tf.function(autograph=False)
    def f(x):
        with compat.shared_constants():
            first = tf.square(x)
            with tf.control_dependencies([first]):
                late = x + 2.5
                later = tf.identity(tf.constant(3.5))
            early = x * 2.5
            graph = late.graph
        assert first.op in late.op.control_inputs, "users of shared constants still wait"
        assert first.op in later.op.control_inputs
        assert not any(op.control_inputs for op in _constants(graph))
        return late, early

    late, early = f(tf.constant(2.0))
    assert (float(late), float(early)) == (4.5, 5.0)


def test_constants_of_other_graphs_are_not_shared():
    with tf.Graph().as_default() as outer, compat.shared_constants():
        a = tf.constant(1.5)
        with tf.Graph().as_default():
            assert tf.constant(1.5).graph is not outer
        assert tf.constant(1.5) is a
    with outer.as_default():
        assert tf.constant(1.5) is not a, "only within the block"
