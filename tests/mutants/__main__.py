"""Runs the fast tests on each mutant: `python -m tests.mutants [--only WORDS] [--jobs N]`.

A mutant is killed if a test fails, or if the tests do not end. It is invalid if its fragment is not in the file, or if
a test file cannot be imported. Each mutant runs in a process that is forked from one that has imported TensorFlow, and
the fault exists only in this process.
"""

import argparse
import collections
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from tests import conftest  # noqa: F401 - sets up the imports of TensorFlow and of the package
from tests.mutants.all_mutants import MUTANTS
from tests.mutants.mutant import Mutant, install
from tests.selection.imports import ROOT

LEAST = 0.95  # the share of mutants that must be killed
SECONDS = 600  # a mutant that hangs is killed, too
PASSED, FAILED = 0, 1  # exit codes of pytest
INVALID = 2


class _Collection:
    """A plugin of pytest that reports whether all test files were imported, because `-x` hides it in the exit code."""

    failed = False

    def pytest_collectreport(self, report):
        self.failed |= report.failed


def _run(tests: str, mutant: Mutant | None, log: Path) -> None:
    """Runs tests in this process, which ends with the exit code of pytest."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(out, 1)
    os.dup2(out, 2)
    try:
        if mutant:
            install(mutant)
    except Exception:
        traceback.print_exc()  # the fragment is no longer in the file
        os._exit(INVALID)
    names = [word for word in tests.split() if word.endswith(".py")]
    keywords = " ".join(word for word in tests.split() if not word.endswith(".py"))
    options = [
        "-x",
        "-q",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-m",
        "not slow",
        *names,
    ]
    collection = _Collection()
    code = pytest.main([*options, *(["-k", keywords] if keywords else [])], [collection])
    sys.stdout.flush()
    os._exit(INVALID if collection.failed else int(code))


def _results(tasks: list[tuple[str, Mutant | None]], jobs: int, folder: Path):
    """Yields (tests, mutant, exit code or None after a hang, log, seconds) as the processes end."""
    context, waiting, running = multiprocessing.get_context("fork"), list(enumerate(tasks)), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            number, (tests, mutant) = waiting.pop(0)
            log = folder / f"{number}.txt"
            process = context.Process(target=_run, args=(tests, mutant, log))
            process.start()
            running[process] = tests, mutant, log, time.monotonic()
        time.sleep(0.05)
        for process, (tests, mutant, log, begun) in list(running.items()):
            seconds = time.monotonic() - begun
            hangs = seconds > SECONDS
            if hangs:
                process.kill()
                process.join()
            if not process.is_alive():
                del running[process]
                yield tests, mutant, None if hangs else process.exitcode, log, seconds


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-25:])


def _check_tests(mutants: list[Mutant], jobs: int, folder: Path) -> None:
    """Exits if tests fail without a fault, because their failure would prove nothing."""
    tasks = [(tests, None) for tests in dict.fromkeys(mutant.tests for mutant in mutants)]
    failures = []
    for tests, _, code, log, seconds in _results(tasks, jobs, folder):
        print(f"{'passed' if code == PASSED else 'failed':8s} {seconds:3.0f} s  {tests}", flush=True)
        if code != PASSED:
            failures.append(f"{tests}: without a fault, these tests end with code {code}:\n{_tail(log)}")
    if failures:
        sys.exit("\n\n".join(["", *failures]))
    print(f"{len(tasks)} groups of tests pass without a fault", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the mutants whose file or fragments contain these words")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes")
    options = parser.parse_args()
    mutants = [mutant for mutant in MUTANTS if options.only in f"{mutant.file} {mutant.old} {mutant.new}"]

    if not mutants:
        parser.error(
            f"--only {options.only!r}: no mutant contains these words. Fix: use a part of a file name or fragment"
        )

    import tensorflow  # noqa: F401 - after conftest, which sets it up

    os.chdir(ROOT)
    begun, counts, faults = time.monotonic(), collections.defaultdict(collections.Counter), []
    with tempfile.TemporaryDirectory() as folder:
        _check_tests(mutants, options.jobs, Path(folder))
        tasks = [(mutant.tests, mutant) for mutant in mutants]
        for _, mutant, code, log, seconds in _results(tasks, options.jobs, Path(folder)):
            outcome = {PASSED: "survived", FAILED: "killed", None: "timeout"}.get(code, "invalid")
            counts[mutant.package]["killed" if outcome == "timeout" else outcome] += 1
            reason = f" ({mutant.reason})" if mutant.reason else ""
            print(f"{outcome:8s} {seconds:3.0f} s  {mutant}{reason}", flush=True)
            if outcome == "invalid":
                faults.append(f"{mutant}: the tests ended with code {code}:\n{_tail(log)}")
            elif (outcome == "survived") != bool(mutant.reason):
                faults.append(f"{mutant}: {outcome}, " + ("in spite of its reason" if mutant.reason else "no reason"))
    print(f"\n{'package':12s} killed  survived  of")
    for package, each in sorted(counts.items()):
        print(f"{package:12s} {each['killed']:6d}  {each['survived']:8d}  {each.total():2d}")
    killed, total = sum(each["killed"] for each in counts.values()), len(mutants)
    print(f"{killed} of {total} mutants are killed, in {time.monotonic() - begun:.0f} s")
    if faults or killed < LEAST * total:
        sys.exit("\n".join(["", *faults]))


if __name__ == "__main__":
    main()
