"""Processes that are forked from one process that has imported TensorFlow, with waits of the tests."""

from benchmarks.reliability.forked import start
from tests import waiting

__all__ = ["end", "run", "start"]


def run(module, *words, code=0, **options):
    """Runs a module in a new process, which must end with an exit code."""
    process = start(module, *words, **options)
    command = f"{module} {' '.join(map(str, words))}"
    try:
        actual = waiting.wait_for_end(process, f"the end of {command}")
    finally:
        end(process)
    assert actual == code, f"{command}: exit code {actual}"


def end(process):
    """Kills a process if it still runs."""
    process.kill()
    process.join()
