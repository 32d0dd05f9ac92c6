"""What every test relies on: a quiet TensorFlow with 8 logical CPUs, and Hypothesis that repeats itself."""

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
    """An import hook that splits the CPU as soon as TensorFlow is imported: before any test can use a device.

    Tests of pure Python never import TensorFlow, and so never wait for it.
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
            gc.freeze()  # hundreds of thousands of objects that every full garbage collection would look at
            cpu = module.config.list_physical_devices("CPU")[0]
            parts = [module.config.LogicalDeviceConfiguration()] * NUM_CPUS
            module.config.set_logical_device_configuration(cpu, parts)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _ConfigureTensorFlow)


@pytest.fixture
def mounted(tmp_path):
    """See `storage.mounting`."""
    with storage.mounting(tmp_path / "disk") as mount:
        yield mount


@pytest.fixture
def open_folder():
    """See `storage.open_folder`."""
    with storage.open_folder() as folder:
        yield folder
