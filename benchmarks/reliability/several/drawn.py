"""Runs one drawn trial: a training that a signal disturbs, and the same training resumed by other processes."""

import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.reliability.several.group import Change, Group, environments
from benchmarks.reliability.several.judgment import judge
from benchmarks.reliability.several.moments import HELD_OUT
from benchmarks.reliability.several.run import Training, find_half_written
from benchmarks.reliability.several.struck import Strike
from benchmarks.reliability.several.trials import Trial

_LIMIT = 5.0  # timeouts between the fault, or the end of a pause, and the end of the last process
_START_S = 120.0  # seconds to wait for the moment
_EVERY = 0.01  # seconds between two checks of the processes


def run_trial(training: Training, trial: Trial, place: Path) -> dict[str, object]:
    """Runs a trial, and returns its part of the results row.

    Args:
      training: the training.
      trial: the trial.
      place: a folder that does not exist; it is kept if the trial fails.
    """
    model_dir = training.place(place) / "run"
    marks = {index: place / f"struck-{index}" for index in trial.struck}
    changes = {
        index: Change(Strike(trial.point, trial.call, trial.delay_s, trial.number, str(mark)).words())
        for index, mark in marks.items()
    }
    variables = environments(trial.num, training.timeout)
    scores = trial.moment == HELD_OUT
    with Group(training.words(trial.num, model_dir, scores), variables, place, changes) as group:
        seconds = _wait(group, trial, marks, training.timeout)
        ends = group.ends()
    struck = [index for index, mark in marks.items() if mark.exists()]
    reason = judge(trial, ends, struck)
    if not reason and (name := find_half_written(model_dir)):
        reason = f"{name} has its final name, but is not whole"
    is_complete = all(end.code == 0 for end in ends)
    resumed = trial.num if is_complete else trial.resumed
    if not reason and not is_complete and (why := training.complete(resumed, model_dir, place, scores)):
        reason = f"resumed: {why}"
    reason = reason or training.find_difference(model_dir, resumed, exact=resumed == trial.num)
    if not reason:
        shutil.rmtree(place)
    return {
        "struck": " ".join(map(str, struck)),
        "codes": " ".join("stopped" if end.code is None else str(end.code) for end in ends),
        "resumed": "" if is_complete else resumed,
        "ended_s": f"{seconds:.1f}",
        "outcome": "failed" if reason else "equal",
        "reason": reason,
    }


def _wait(group: Group, trial: Trial, marks: Mapping[int, Path], timeout: float) -> float:
    """Waits until the processes have ended or reached a limit, and returns the seconds since the first signal.

    A stopped process continues after the trial's pause.
    """
    began = time.monotonic()
    struck_at: dict[int, float] = {}
    continued: set[int] = set()
    is_stop, pause = trial.signal == "SIGSTOP", (trial.pause or 0.0) * timeout
    while True:
        now = time.monotonic()
        for index, mark in marks.items():
            if index not in struck_at and mark.exists():
                struck_at[index] = now
            if index in struck_at and is_stop and trial.pause is not None and now > struck_at[index] + pause:
                if index not in continued:
                    group.send(index, signal.SIGCONT)
                continued.add(index)
        first = min(struck_at.values(), default=now)
        stopped = set(struck_at) if is_stop and trial.pause is None else set()
        limit = began + _START_S if not struck_at else first + pause + _LIMIT * timeout
        if now > limit or not set(group.running()) - stopped:
            return now - first
        time.sleep(_EVERY)
