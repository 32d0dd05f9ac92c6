"""Common setup of all tests: TensorFlow with 8 logical CPUs, poisoned tails, and reproducible Hypothesis examples."""

import argparse
import collections
import gc
import math
import os
import zlib

import hypothesis
import pytest

from tests import importing, storage

NUM_CPUS = 8

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # TensorFlow's default depends on the CPU
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


def _configure_tensorflow(tensorflow):
    gc.freeze()  # excludes hundreds of thousands of objects from every full garbage collection
    cpu = tensorflow.config.list_physical_devices("CPU")[0]
    parts = [tensorflow.config.LogicalDeviceConfiguration()] * NUM_CPUS
    tensorflow.config.set_logical_device_configuration(cpu, parts)


importing.after_import("tensorflow", _configure_tensorflow)
importing.poison_tails()


def _part(text):
    number, slash, parts = text.partition("/")
    if not (number.isdecimal() and slash and parts.isdecimal() and int(number) < int(parts)):
        raise argparse.ArgumentTypeError(f"not K/N with 0 <= K < N: {text!r}. Example: 0/4")
    return int(number), int(parts)


def pytest_addoption(parser):
    parser.addoption(
        "--slow-part",
        metavar="K/N",
        type=_part,
        help="runs only every Nth slow case, beginning with the Kth from 0, and all other tests",
    )


def _deselect_other_parts(config, items):
    """Keeps one part of the slow cases. Those of one test are in different parts, if it has several."""
    number, parts = config.getoption("slow_part")
    tables = collections.defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            tables[item.nodeid.partition("[")[0]].append(item.nodeid)
    chosen = set()
    for name, cases in tables.items():
        first = number + zlib.crc32(name.encode())
        cases.sort(key=lambda case: zlib.crc32(case.encode()))
        chosen.update(case for place, case in enumerate(cases, first) if place % parts == 0)
    runs = [item.nodeid in chosen or not item.get_closest_marker("slow") for item in items]
    config.hook.pytest_deselected(items=[item for item, run in zip(items, runs, strict=True) if not run])
    items[:] = [item for item, run in zip(items, runs, strict=True) if run]


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their markers
def pytest_collection_modifyitems(config, items):
    """Marks the cases of `mostly_slow` tests as slow, except a fixed fraction of them, and selects `--slow-part`."""
    tables = collections.defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("mostly_slow")
        if marker and not item.get_closest_marker("slow"):
            tables[item.function, marker.kwargs["fast"]].append(item)
    for (_, part), cases in tables.items():
        cases.sort(key=lambda item: zlib.crc32(item.name.encode()))
        for item in cases[math.ceil(part * len(cases)) :]:
            item.add_marker(pytest.mark.slow)
    if config.getoption("slow_part"):
        _deselect_other_parts(config, items)


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
