"""Common setup of all tests: TensorFlow with 8 logical CPUs, poisoned tails, and reproducible Hypothesis examples."""

import gc
import importlib.util
import os
import sys

import hypothesis
import pytest

from tests import storage

NUM_CPUS = 8

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


class _AfterImport:
    """An import hook that calls a function as soon as a module has been imported.

    Tests of pure Python modules therefore do not have to import TensorFlow.
    """

    def __init__(self, name, call):
        self.name, self.call = name, call

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.call(module)

        spec.loader.exec_module = exec_module
        return spec


def _configure_tensorflow(tensorflow):
    gc.freeze()  # excludes hundreds of thousands of objects from every full garbage collection
    cpu = tensorflow.config.list_physical_devices("CPU")[0]
    parts = [tensorflow.config.LogicalDeviceConfiguration()] * NUM_CPUS
    tensorflow.config.set_logical_device_configuration(cpu, parts)


def _poison_tails(lowering):
    """Poisons the tails of uneven slices in all tests. Even slices have no tails, so their graphs do not change."""
    importlib.import_module("tests.poison").install(lowering.Lowering, lowering.ShardMeshImpl)


sys.meta_path.insert(0, _AfterImport("tensorflow", _configure_tensorflow))
sys.meta_path.insert(0, _AfterImport("mtf_imaging.program.lowering", _poison_tails))


@pytest.fixture
def mounted(tmp_path):
    """Runs a test within `storage.mounting`."""
    with storage.mounting(tmp_path / "disk") as mount:
        yield mount


@pytest.fixture
def open_folder():
    """Runs a test within `storage.open_folder`."""
    with storage.open_folder() as folder:
        yield folder
