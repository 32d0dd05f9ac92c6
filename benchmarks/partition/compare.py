"""Measures contenders in rounds: each contender builds, then all take one step per round, in a random order.

Other load on a machine changes over minutes, but hardly within a round. Ratios within a round are therefore
meaningful, while seconds are not.
"""

import dataclasses
import math
import random
from collections.abc import Iterable

from benchmarks.partition.contender import EQUAL, REFERENCE, Contender
from benchmarks.partition.networks import Step
from benchmarks.partition.process import Process, WorkerError

TOLERANCES = {"float32": 1e-4, "bfloat16": 2e-2}  # relative tolerance of the first losses
_LOAD_TIMEOUT = 300.0


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of a measurement.

    Attributes:
      rounds: number of timed steps of each contender.
      build_timeout: maximum seconds for a build, and for each of the first two steps.
      step_timeout: maximum seconds for any other step.
      pythons: {kind of contender: Python interpreter}, for kinds that need another interpreter.
    """

    rounds: int = 20
    build_timeout: float = 180.0
    step_timeout: float = 120.0
    pythons: dict = dataclasses.field(default_factory=dict)


def compare(step: Step, contenders: Iterable[Contender], settings: Settings, report=print) -> list[dict]:
    """Measures contenders.

    Args:
      step: the step that all contenders take.
      contenders: the contenders, including `REFERENCE`.
      settings: the settings of the measurement.
      report: a function that receives lines of progress.

    Returns:
      One dict for each contender, described in docs/evidence/performance.md. Failed contenders have an "error".
    """
    rows, alive = [], {}
    try:
        for contender in contenders:
            sizes = list(contender.step(step).sizes)
            row = {"contender": str(contender), "kind": contender.kind, "mesh": list(contender.mesh), "sizes": sizes}
            row["error"] = None
            rows.append(row)
            alive[str(contender)] = Process(contender, step, settings.pythons.get(contender.kind)), row
            _attempt(alive, row, _start, settings.build_timeout)
            done = row["error"] or f"built in {row['build_s']:.1f} s, first step {row['first_s']:.2f} s"
            report(f"{contender}: {done}")
        order = random.Random(step.seed)
        for number in range(settings.rounds):
            for name in order.sample(sorted(alive), len(alive)):
                _attempt(alive, alive[name][1], _take, settings.step_timeout)
            report(f"round {number + 1} of {settings.rounds}")
        for _, row in list(alive.values()):
            _attempt(alive, row, _end, _LOAD_TIMEOUT)
    finally:
        for process, _ in alive.values():
            process.close()
    if step.dropout_rate:
        report("comparing the losses without dropout, because each contender draws its own masks")
        equal = dataclasses.replace(step, dropout=False)
        built = [contender for contender, row in zip(contenders, rows) if not row["error"]]
        checked = {
            row["contender"]: row for row in compare(equal, built, dataclasses.replace(settings, rounds=0), report)
        }
        for row in rows:
            row["loss_differs"] = checked.get(row["contender"], {}).get("loss_differs")
    else:
        _note_differences(rows)
    return rows


def unequal(step: Step, rows: list[dict]) -> list[str]:
    """Returns a message for each contender in `EQUAL` whose first two losses differ from the reference's."""
    tolerance = TOLERANCES[step.dtype]
    return [
        f"{step.network}, {row['contender']}: the first two losses differ from those of {REFERENCE} by "
        f"{max(row['loss_differs']):.1e}, relative; the tolerance is {tolerance:g}"
        for row in rows
        if row["kind"] in EQUAL and row.get("loss_differs") and not max(row["loss_differs"]) <= tolerance
    ]


def _attempt(alive, row, measure, timeout):
    """Runs one measurement. If the contender fails, stores its error and drops it from the later rounds."""
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
    second = process.ask("step", timeout)  # not timed, because caches and pools still fill
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
    """Compares the first two losses with the reference, and stores the relative differences of equal volumes."""
    first = next((row for row in rows if row["kind"] == REFERENCE), {})
    reference = first.get("losses")
    for row in rows:
        if reference and row.get("losses") and row["sizes"] == first["sizes"]:
            pairs = zip(row["losses"], reference)
            differs = [abs(loss / expected - 1) for loss, expected in pairs]
            row["loss_differs"] = [d if math.isfinite(d) else math.inf for d in differs]
