"""Kills every writing command at random moments, repeats it, and compares the result with an undisturbed run."""

import dataclasses
import random
import shutil
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from benchmarks.reliability import commands, good
from benchmarks.reliability.results import Results
from benchmarks.reliability.writers import WRITERS, Undisturbed, content, is_hidden, settled

FILE = "reliability_kills.csv"
COLUMNS = ("command", "number", "moment", "part", "written", "files", "outcome", "reason", "seconds")
_LIMIT_S = 240.0


@dataclasses.dataclass(frozen=True)
class Moment:
    """The moment at which to kill a command.

    Attributes:
      kind: "any", after a fraction of the time that the command needs; or "writing", after it has written a fraction of
        its files, including those with temporary names.
      part: the fraction, between 0 and 1.
    """

    kind: str
    part: float

    def wait(self, process: BaseProcess, out: Path, whole: Undisturbed) -> None:
        """Waits for the moment, or for the end of the process."""
        began = time.monotonic()
        while process.exitcode is None:
            if self.kind == "any" and time.monotonic() - began > self.part * whole.seconds:
                return
            if self.kind == "writing" and len(content(out)) > self.part * len(whole.files):
                return
            time.sleep(0.001)


def moments(seed: int, number: int) -> list[Moment]:
    """Returns random moments, alternating between both kinds."""
    draw = random.Random(seed)
    return [Moment(("any", "writing")[index % 2], round(draw.random(), 3)) for index in range(number)]


def results(output_dir: Path) -> Results:
    """Returns the results file."""
    return Results(output_dir / FILE, COLUMNS, ("command", "number"))


def measure(
    output_dir: Path, only: Sequence[str] = (), again: bool = False, minutes: float | None = None, number: int = 20
) -> list[dict[str, object]]:
    """Kills the commands that have not been killed often enough, and returns the failures.

    Args:
      output_dir: folder of the good data and the results.
      only: names of commands; empty for all.
      again: whether kills with a result are repeated.
      minutes: no kill begins after this time; None for no limit.
      number: number of kills per command.
    """
    file, good_dir = results(output_dir), good.prepare(output_dir / "good")
    done = set() if again else file.keys()
    end = time.monotonic() + 60 * minutes if minutes else None
    failures = []
    for seed, command in enumerate(only or WRITERS, start=1):
        left = [index for index in range(number) if (command, str(index)) not in done]
        if not left or (end is not None and time.monotonic() > end):
            continue
        place = output_dir / f"kills-{command}"
        shutil.rmtree(place, ignore_errors=True)
        whole = Undisturbed(WRITERS[command], good_dir, place, _LIMIT_S)
        for index, moment in enumerate(moments(seed, number)):
            if index not in left or (end is not None and time.monotonic() > end):
                continue
            row = {"command": command, "number": index, **kill_once(whole, moment, place / f"kill--{index:02}")}
            file.add(row)
            print(f"{row['outcome']:8} {command} {moment.kind} {moment.part} {row['reason']}", flush=True)
            if row["outcome"] == "failed":
                failures.append(row)
        if not any(row["command"] == command for row in failures):  # otherwise kept, because the files show the fault
            shutil.rmtree(place)
    return failures


def kill_once(whole: Undisturbed, moment: Moment, place: Path) -> dict[str, object]:
    """Kills a command once, repeats it in the same folder, and returns the results row."""
    out, began = place / "out", time.monotonic()
    out.mkdir(parents=True)
    process = commands.start(whole.writer.words(whole.good, out), out)
    moment.wait(process, out, whole)
    process.kill()
    process.join()
    left = settled(out)
    written = len([name for name in left if not is_hidden(name)])
    commands.kill(process)  # workers that may have outlived it
    reason = whole.find_half_written(left)
    if reason:
        reason = f"{reason} has its final name, but is not whole"
    elif not whole.is_complete(out):
        result = commands.run(whole.writer.words(whole.good, out, again=True), out, _LIMIT_S)
        if result.code != 0 or "Traceback" in result.text:
            reason = f"repeated: exit code {result.code}: {' '.join(result.text.split())[-200:]}"
    reason = reason or whole.find_difference(content(out))
    if not reason:
        shutil.rmtree(place)
    return {
        "moment": moment.kind,
        "part": moment.part,
        "written": written,
        "files": len(whole.files),
        "outcome": "failed" if reason else "equal",
        "reason": reason,
        "seconds": f"{time.monotonic() - began:.1f}",
    }
