"""Common setup of all tests: a quiet TensorFlow with 8 logical CPUs, and reproducible Hypothesis examples."""

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


class _ConfigureTensorFlow:
    """An import hook that configures logical CPUs as soon as TensorFlow is imported.

    Tests of pure Python modules therefore do not have to import TensorFlow.
    """

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "tensorflow":
            return None
        sys.meta_path.remove(_ConfigureTensorFlow)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            gc.freeze()  # excludes hundreds of thousands of objects from every full garbage collection
            cpu = module.config.list_physical_devices("CPU")[0]
            parts = [module.config.LogicalDeviceConfiguration()] * NUM_CPUS
            module.config.set_logical_device_configuration(cpu, parts)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _ConfigureTensorFlow)


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
