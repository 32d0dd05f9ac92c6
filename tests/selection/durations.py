"""The processor time of slow tests, which `make durations` records.

Processor time changes less than time under the load of other programs.
"""

import collections
import functools
import json
import os
from pathlib import Path

import pytest

_RECORDED = Path(__file__).with_suffix(".json")
_seconds: collections.Counter = collections.Counter()


@functools.cache
def recorded() -> dict[str, float]:
    """Returns {test module: processor seconds of its slow tests}."""
    return json.loads(_RECORDED.read_text())


def processor_seconds(process: int) -> float:
    """Returns the processor time of a process and of all processes that it started."""
    try:
        numbers = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0.0  # the process has ended
    own = sum(map(int, numbers[11:15])) / os.sysconf("SC_CLK_TCK")  # with the children that have ended
    return own + sum(processor_seconds(int(child)) for child in children)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    item.user_properties.append(("began", processor_seconds(os.getpid())))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    result = yield
    item.user_properties.append(("ended", processor_seconds(os.getpid())))
    return result


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        times = dict(report.user_properties)
        module = report.nodeid.partition(".py::")[0].replace("/", ".")
        _seconds[module] += times["ended"] - times["began"]


def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        seconds = {module: round(own) for module, own in sorted(_seconds.items())}
        _RECORDED.write_text(json.dumps(seconds, indent=2) + "\n")
