"""Contenders side by side: each builds, then all take one step in turn, round after round, in a new order each time.

What else a machine does comes and goes over minutes; within a round it is the same for all, so ratios within a
round mean something where seconds do not.
"""

import dataclasses
import math
import random
from collections.abc import Iterable

from benchmarks.partition.contender import EQUAL, REFERENCE, Contender
from benchmarks.partition.networks import Step
from benchmarks.partition.process import Process, WorkerError

TOLERANCES = {"float32": 1e-4, "bfloat16": 2e-2}  # of the first losses, as a share of them
_LOAD_TIMEOUT = 300.0


@dataclasses.dataclass(frozen=True)
class Settings:
    """How contenders are measured.

    Attributes:
      rounds: how often each takes the step once it has run.
      build_timeout: seconds that a build may take, and each of the first two steps.
      step_timeout: seconds that any other step may take.
      pythons: by kind of contender, the interpreter that runs it, where it is not this one.
    """

    rounds: int = 20
    build_timeout: float = 180.0
    step_timeout: float = 120.0
    pythons: dict = dataclasses.field(default_factory=dict)


def compare(step: Step, contenders: Iterable[Contender], settings: Settings, say=print) -> list[dict]:
    """Measures contenders.

    Args:
      step: the step that all take.
      contenders: who, `REFERENCE` among them.
      settings: how.
      say: told of progress, a line at a time.

    Returns:
      For each contender a dict; docs/evidence/performance.md says of what. One that failed has its "error".
    """
    rows, alive = [], {}
    try:
        for contender in contenders:
            row = {"contender": str(contender), "kind": contender.kind, "mesh": list(contender.mesh), "error": None}
            rows.append(row)
            alive[str(contender)] = Process(contender, step, settings.pythons.get(contender.kind)), row
            _attempt(alive, row, _start, settings.build_timeout)
            done = row["error"] or f"built in {row['build_s']:.1f} s, first step {row['first_s']:.2f} s"
            say(f"{contender}: {done}")
        order = random.Random(step.seed)
        for number in range(settings.rounds):
            for name in order.sample(sorted(alive), len(alive)):
                _attempt(alive, alive[name][1], _take, settings.step_timeout)
            say(f"round {number + 1} of {settings.rounds}")
        for _, row in list(alive.values()):
            _attempt(alive, row, _end, _LOAD_TIMEOUT)
    finally:
        for process, _ in alive.values():
            process.close()
    if step.dropout_rate:
        say("the same without dropout, whose masks are each contender's own: are the losses equal?")
        equal = dataclasses.replace(step, dropout=False)
        built = [contender for contender, row in zip(contenders, rows) if not row["error"]]
        checked = {row["contender"]: row for row in compare(equal, built, dataclasses.replace(settings, rounds=0), say)}
        for row in rows:
            row["loss_differs"] = checked.get(row["contender"], {}).get("loss_differs")
    else:
        _note_differences(rows)
    return rows


def unequal(step: Step, rows: list[dict]) -> list[str]:
    """What is wrong with the losses of the first two steps: those of `EQUAL` contenders must be the reference's."""
    tolerance = TOLERANCES[step.dtype]
    return [
        f"{step.network}, {row['contender']}: the losses of the first two steps are off {REFERENCE}'s by "
        f"{max(row['loss_differs']):.1e} of these, more than {tolerance:g}"
        for row in rows
        if row["kind"] in EQUAL and row.get("loss_differs") and not max(row["loss_differs"]) <= tolerance
    ]


def _attempt(alive, row, measure, timeout):
    """Measures; a contender that fails is out, with its error noted."""
    try:
        measure(alive[row["contender"]][0], row, timeout)
    except WorkerError as error:
        row["error"] = str(error)
        del alive[row["contender"]]


def _start(process, row, timeout):
    loaded = process.ask("load", _LOAD_TIMEOUT)
    row["base_bytes"], row["others_base_bytes"] = loaded["peak"], loaded["others"]
    built = process.ask("build", timeout)
    row["build_s"], row["nodes"] = built["seconds"], built["nodes"]
    first = process.ask("step", timeout)
    second = process.ask("step", timeout)  # not counted: caches and pools fill
    row["first_s"], row["losses"], row["steps_s"] = first["seconds"], [first["loss"], second["loss"]], []
    row["peak_bytes"] = second["peak"]


def _take(process, row, timeout):
    taken = process.ask("step", timeout)
    row["steps_s"].append(taken["seconds"])
    row["peak_bytes"] = taken["peak"]


def _end(process, row, timeout):
    ended = process.ask("end", timeout)
    row["others_bytes"], row["device_peak_bytes"] = ended["others"], ended["device_peak"]


def _note_differences(rows):
    """How far the losses of the first two steps are from the reference's, as a share of these."""
    reference = next((row.get("losses") for row in rows if row["kind"] == REFERENCE), None)
    for row in rows:
        if reference and row.get("losses"):
            pairs = zip(row["losses"], reference)
            differs = [abs(loss / expected - 1) for loss, expected in pairs]
            row["loss_differs"] = [d if math.isfinite(d) else math.inf for d in differs]
