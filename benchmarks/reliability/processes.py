"""Disturbs training runs of several processes, resumes them with a different number, and compares the weights."""

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.reliability.results import Results
from benchmarks.reliability.several.drawn import run_trial
from benchmarks.reliability.several.run import Training
from benchmarks.reliability.several.single import NAMES, run_single
from benchmarks.reliability.several.trials import draw

FILE = "reliability_processes.csv"
COLUMNS = (
    *("kind", "trial", "processes", "fault", "moment", "place", "struck", "codes", "resumed", "ended_s"),
    *("outcome", "reason"),
)
DRAWN, ONE = "drawn", "single"
SEED = 1
TIMEOUT = 12.0  # seconds after which a process counts as lost


def results(output_dir: Path) -> Results:
    """Returns the results file."""
    return Results(output_dir / FILE, COLUMNS, ("kind", "trial"))


def measure(
    output_dir: Path,
    only: Sequence[str] = (),
    again: bool = False,
    minutes: float | None = None,
    number: int = 40,
    seed: int = SEED,
) -> list[dict[str, object]]:
    """Runs the trials that have no result yet, and returns the failures.

    Args:
      output_dir: folder of the data and the results.
      only: numbers of drawn trials and names of single trials; empty for all.
      again: whether trials with a result are repeated.
      minutes: no trial begins after this time; None for no limit.
      number: number of drawn trials.
      seed: the seed of the drawn trials.
    """
    file, training = results(output_dir), Training(output_dir / "several", TIMEOUT)
    done = set() if again else file.keys()
    end = time.monotonic() + 60 * minutes if minutes else None
    print(f"seed {seed}")
    failures = []
    trials = {(DRAWN, str(index)): trial for index, trial in enumerate(draw(seed, number))}
    for key in [*trials, *((ONE, name) for name in NAMES)]:
        kind, name = key
        if key in done or (only and name not in only) or (end is not None and time.monotonic() > end):
            continue
        place = output_dir / "several" / f"{kind}-{name.replace(' ', '-')}"
        row: dict[str, object] = {"kind": kind, "trial": name}
        if kind == DRAWN:
            trial = trials[key]
            row |= {"processes": trial.num, "fault": str(trial), "moment": trial.moment}
            row |= {"place": f"call {trial.call} of {trial.point} + {trial.delay_s} s"} | run_trial(
                training, trial, place
            )
        else:
            row |= run_single(training, name, place)
        file.add(row)
        print(*(row[column] for column in ("outcome", *COLUMNS[:-2], "reason")), sep="; ", flush=True)
        if row["outcome"] == "failed":
            failures.append(row)
    return failures
