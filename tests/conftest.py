"""Common setup of all tests: TensorFlow with 8 logical CPUs, poisoned tails, and reproducible Hypothesis examples."""

import collections
import gc
import math
import os
import re
import subprocess
import sys
import time
import zlib

import hypothesis
import pytest

from tests import importing, storage
from tests.selection import selection

NUM_CPUS = 8
_BEGAN = time.monotonic()  # seconds
_TOO_LATE = "the time of the slow tests is over"

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # TensorFlow's default depends on the CPU
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


def _configure_tensorflow(tensorflow):
    gc.freeze()  # excludes hundreds of thousands of objects from every full garbage collection
    # Graphs consist of many small objects, and Python's usual thresholds spend 15% of the time on collections.
    gc.set_threshold(100_000, 50, 1000)
    cpu = tensorflow.config.list_physical_devices("CPU")[0]
    parts = [tensorflow.config.LogicalDeviceConfiguration()] * NUM_CPUS
    tensorflow.config.set_logical_device_configuration(cpu, parts)


importing.after_import("tensorflow", _configure_tensorflow)
importing.poison_tails()


def pytest_addoption(parser):
    parser.addoption(
        "--changed-since",
        metavar="COMMIT",
        help="runs the fast tests, the slow tests that import a file changed since a commit (a part of them after a "
        "change of the core), and a part of the others; tests of the engine run only if they import such a file; "
        "'' is the commit at which the branch left main, and on main the newest state at least a day older than HEAD",
    )
    parser.addoption(
        "--slow-minutes",
        type=float,
        default=math.inf,
        metavar="N",
        help="skips slow tests that begin more than N minutes after the start, so that a run on a slow machine ends",
    )


def pytest_configure(config):
    if config.getoption("changed_since") is not None and not hasattr(config, "workerinput"):
        commit = config.getoption("changed_since")
        try:
            config.selected = selection.Selection.since(commit)
        except subprocess.CalledProcessError as error:
            why = error.stderr.strip()
            raise pytest.UsageError(
                f"--changed-since {commit}: {why}. Fix: name a commit of this repository."
            ) from None


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_configure_node(node):
    """Passes the selection to a process of pytest-xdist, so that only one process reads all imports."""
    if hasattr(node.config, "selected"):
        node.workerinput["selected"] = node.config.selected.to_json()


def pytest_report_header(config):
    return str(config.selected) if hasattr(config, "selected") else None


def _selection(config):
    """Returns the `Selection`, or None if all tests run."""
    if "selected" in getattr(config, "workerinput", {}):
        return selection.Selection.from_json(config.workerinput["selected"])
    return getattr(config, "selected", None)


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their markers
def pytest_collection_modifyitems(config, items):
    """Marks the cases of `mostly_slow` tests as slow, except a fixed fraction of them, and selects tests."""
    tables = collections.defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("mostly_slow")
        if marker and not item.get_closest_marker("slow"):
            tables[item.function, marker.kwargs["fast"]].append(item)
    for (_, part), cases in tables.items():
        cases.sort(key=lambda item: zlib.crc32(item.name.encode()))
        for item in cases[math.ceil(part * len(cases)) :]:
            item.add_marker(pytest.mark.slow)
    if selected := _selection(config):
        chosen = selected.choose(items)
        config.hook.pytest_deselected(items=[*{*items} - {*chosen}])
        items[:] = chosen


@pytest.hookimpl(tryfirst=True)  # before its fixtures
def pytest_runtest_setup(item):
    if item.get_closest_marker("slow") and time.monotonic() - _BEGAN > 60 * item.config.getoption("slow_minutes"):
        pytest.skip(_TOO_LATE)


def pytest_terminal_summary(terminalreporter):
    late = [report for report in terminalreporter.stats.get("skipped", []) if _TOO_LATE in str(report.longrepr)]
    if late:
        terminalreporter.write_line(f"{len(late)} SLOW TESTS DID NOT RUN: {_TOO_LATE}", yellow=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fails a test that is skipped for a reason that must not occur here, such as a missing browser in CI.

    The environment variable FAIL_ON_SKIP is a regular expression of such reasons.
    """
    report = yield
    pattern = os.environ.get("FAIL_ON_SKIP")
    if pattern and report.skipped and isinstance(report.longrepr, tuple) and re.search(pattern, report.longrepr[2]):
        report.outcome, report.longrepr = "failed", f"FAIL_ON_SKIP = {pattern!r}: {report.longrepr[2]}"
    return report


def _clear_gin():
    if "gin" in sys.modules:
        sys.modules["gin"].clear_config()


@pytest.fixture(autouse=True)
def no_gin_configuration():
    """No test gets the settings that commands and other tests have bound."""
    _clear_gin()
    yield
    _clear_gin()


@pytest.fixture(autouse=True)
def keras_computes_in_float32():
    """No test gets the dtype with which an earlier one has built a network of Keras."""
    yield
    if "keras" in sys.modules:
        sys.modules["keras"].config.set_floatx("float32")
        sys.modules["keras"].config.set_dtype_policy("float32")


def _python_variables():
    return {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}


@pytest.fixture(autouse=True)
def python_variables_are_restored():
    """No test leaves a variable behind that changes how the processes of later tests start."""
    before = _python_variables()
    yield
    assert _python_variables() == before


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
