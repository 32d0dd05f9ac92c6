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

from mtf_imaging import compat

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
