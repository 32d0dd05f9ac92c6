"""Feeds every bad input to its command, and compares the command's behavior with the expected behavior."""

import concurrent.futures
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reliability import commands, good
from benchmarks.reliability.inputs.all_inputs import INPUTS
from benchmarks.reliability.inputs.bad_input import LIMIT_S, PEAK_MIB, BadInput, judge, snapshot
from benchmarks.reliability.results import Results

FILE = "reliability_bad_inputs.csv"
COLUMNS = ("kind", "input", "command", "outcome", "reason", "seconds", "peak_mib", "message")
_SHOWN = 300  # characters of a message to keep in the results


def results(output_dir: Path) -> Results:
    """Returns the results file."""
    return Results(output_dir / FILE, COLUMNS, ("kind", "input", "command"))


def select(only: Sequence[str], inputs: Sequence[BadInput] = INPUTS) -> list[BadInput]:
    """Returns the inputs whose key contains all words."""
    return [given for given in inputs if all(word.lower() in given.key.lower() for word in only)]


def measure(
    output_dir: Path, only: Sequence[str] = (), again: bool = False, minutes: float | None = None, at_once: int = 2
) -> list[dict[str, object]]:
    """Runs the inputs that have no result yet, and returns the failures.

    Args:
      output_dir: folder of the good data and the results.
      only: words that the keys of the inputs must contain.
      again: whether inputs with a result run again.
      minutes: no input begins after this time; None for no limit.
      at_once: number of commands that run at the same time.
    """
    file = results(output_dir)
    done = set() if again else file.keys()
    left = [given for given in select(only) if (given.kind, given.name, given.command) not in done]
    good_dir = good.prepare(output_dir / "good")
    end = time.monotonic() + 60 * minutes if minutes else None
    failures = []
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        futures = [pool.submit(run, given, good_dir, output_dir, number, end) for number, given in enumerate(left)]
        for future in concurrent.futures.as_completed(futures):
            row = future.result()
            if row is not None:
                file.add(row)
                print(f"{row['outcome']:8} {row['kind']}: {row['input']}: {row['command']} {row['reason']}", flush=True)
                if row["outcome"] == "failed":
                    failures.append(row)
    return failures


def run(
    given: BadInput, good_dir: Path, output_dir: Path, number: int = 0, end: float | None = None
) -> dict[str, object] | None:
    """Creates an input, runs its command and returns the result row; None after the time `end`."""
    if end is not None and time.monotonic() > end:
        return None
    here = output_dir / f"input-{number}"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(parents=True)
    given.make(good_dir, here)
    before = snapshot(here)
    result = commands.run(given.words(good_dir, here), here, LIMIT_S, given.environment, most_mib=PEAK_MIB)
    outcome, reason = judge(result, given, here, before)
    shutil.rmtree(here)
    return {
        "kind": given.kind,
        "input": given.name,
        "command": given.command,
        "outcome": outcome,
        "reason": reason,
        "seconds": f"{result.seconds:.1f}",
        "peak_mib": result.peak_mib,
        "message": message(result.text.replace(str(here), "INPUT").replace(str(good_dir), "GOOD")),
    }


def message(text: str) -> str:
    """Returns the beginning of a command's message: from the program name on, or the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    own = [number for number, line in enumerate(lines) if line.startswith("mtf-imaging: ")]
    shown = lines[own[0] :] if own else lines[-1:]
    return " ".join(shown)[:_SHOWN]
