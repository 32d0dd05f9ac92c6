"""An observer that sends the values of a run to a tracking service, in a thread of its own."""

import hashlib
import json
import logging
import math
import queue
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.json_file import read_object
from mtf_imaging.training.observers.events import StepValues
from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.step_table import read_rows
from mtf_imaging.training.observers.tracking.service import HELD_OUT, TRAIN, Row, RunInfo, Service

_logger = logging.getLogger(__name__)
_MOST_WAITING = 100_000  # rows; the tracker gives up on a service that falls further behind
_BATCH = 500  # rows that are sent together
_CLOSE_SECONDS = 60.0  # how long the end of a run waits for the service


class Tracker(Observer):
    """Sends steps and scores to a tracking service.

    The training never waits for the service: a thread connects, sends and retries. If the service fails, the tracker
    warns once, and the training continues without it.

    The state file stores the id of the service's run and the last steps that the service has received. A resumed run
    continues the same run of the service. Steps that it lacks are read from `losses.csv` and `scores.csv`; steps that
    it has are not sent again. A tracker that is added to a run later therefore receives the earlier steps as well.

    Args:
      service: the tracking service.
      info: the information to store about the run.
      state: the file for the state of the tracker, in the folder of the run.
      losses, scores: the `losses.csv` and the `scores.csv` of the run.
      step_values: returns the values of a step.
      every: interval between steps that are sent, in steps. The last step is always sent.
      num_steps: number of steps of the run.
    """

    def __init__(
        self,
        service: Service,
        info: RunInfo,
        state: Path,
        *,
        losses: Path,
        scores: Path,
        step_values: StepValues,
        every: int,
        num_steps: int,
    ) -> None:
        self._service, self._info, self._state_file = service, info, state
        self._losses, self._scores, self._step_values = losses, scores, step_values
        self._every, self._num_steps = every, num_steps
        self._queue: queue.Queue[Row | None] = queue.Queue(_MOST_WAITING)
        self._has_failed = False
        self._thread: threading.Thread | None = None

    def begin(self, step: int) -> None:
        earlier = [*_rows(self._losses, TRAIN, step), *_rows(self._scores, HELD_OUT, step + 1)]
        rows = sorted((row for row in earlier if row.group == HELD_OUT or self._is_due(row.step)), key=_order)
        self._thread = threading.Thread(target=self._send_all, args=(rows,), name=self._service.title, daemon=True)
        self._thread.start()

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        if self._is_due(step) and not self._has_failed:
            shown = self._step_values(step, values, seconds, waited)
            self._put(Row(TRAIN, step, {name: float(value) for name, value in shown.items()}))

    def scores(self, step: int, scores: Mapping[str, float]) -> None:
        """Receives the scores of the held-out cases after a number of steps."""
        self._put(Row(HELD_OUT, step, {name: float(value) for name, value in scores.items()}))

    def close(self) -> None:
        if self._thread is None:
            return
        self._put(None)
        self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            self._fail(f"it has not received the last values within {_CLOSE_SECONDS:.0f} s")

    def _is_due(self, step: int) -> bool:
        return step % self._every == 0 or step == self._num_steps - 1

    def _put(self, row: Row | None) -> None:
        try:
            self._queue.put_nowait(row)
        except queue.Full:
            self._fail(f"it is {_MOST_WAITING} steps behind")

    def _fail(self, why: object) -> None:
        if not self._has_failed:
            self._has_failed = True
            _logger.warning(
                "%s: %s receives no more values of this run (%s). The training continues, and losses.csv contains all "
                "values. Starting the run again sends the missing ones.",
                self._info.folder,
                self._service.title,
                " ".join(str(why).split()),
            )

    def _send_all(self, rows: list[Row]) -> None:
        """Sends the earlier rows, then the rows from the queue until the run ends."""
        try:
            state = self._open()
            last: dict[str, int] = state["last"]
            self._send(rows, state)
            is_open = True
            while is_open and not self._has_failed:
                batch = self._next_batch()
                is_open = None not in batch
                self._send([row for row in batch if row is not None], state)
            if not self._has_failed:
                self._service.close(last.get(TRAIN, -1) >= self._num_steps - 1)
        except Exception as error:  # any package may raise anything, and a tracker must not end a run
            self._fail(error or type(error).__name__)

    def _next_batch(self) -> list[Row | None]:
        """Waits for a row, and returns it together with the rows queued behind it."""
        batch = [self._queue.get()]
        while len(batch) < _BATCH and batch[-1] is not None:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _open(self) -> dict[str, Any]:
        place = self._service.connect(self._info)
        # A digest, because the address of a server can contain a password.
        digest = hashlib.sha256(place.encode()).hexdigest()[:16]
        state = _read_state(self._state_file)
        if state.get("place") != digest:
            state = {"place": digest, "run_id": None, "last": {}}
        run_id, last = self._service.open(self._info, state["run_id"])
        known = {group: max(last.get(group, -1), state["last"].get(group, -1)) for group in (TRAIN, HELD_OUT)}
        state |= {"run_id": run_id, "last": known}
        self._save(state)
        return state

    def _send(self, rows: list[Row], state: dict[str, Any]) -> None:
        """Sends the rows that the service lacks."""
        last = state["last"]
        new = [row for row in rows if row.step > last[row.group]]
        for first in range(0, len(new), _BATCH):
            batch = new[first : first + _BATCH]
            self._service.log(batch)
            last |= {row.group: row.step for row in batch}
            self._save(state)

    def _save(self, state: Mapping[str, Any]) -> None:
        write_bytes(self._state_file, (json.dumps(state, indent=1) + "\n").encode())


def _read_state(path: Path) -> dict[str, Any]:
    """Returns the state of a tracker; an empty dict if there is none, or if the file is damaged."""
    try:
        state = read_object(path) if path.is_file() else {}
    except DataError as error:
        _logger.warning("%s", error)
        return {}
    is_valid = isinstance(state.get("last"), dict) and all(isinstance(n, int) for n in state["last"].values())
    return state if is_valid else {}


def _rows(path: Path, group: str, step: int) -> Iterator[Row]:
    """Yields the rows of a table before a step; columns that are not finite numbers are left out."""
    for row in read_rows(path, step):
        numbers = {name: _number(text) for name, text in row.items() if name not in ("step", "cases")}
        yield Row(group, int(row["step"]), {name: n for name, n in numbers.items() if math.isfinite(n)})


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _order(row: Row) -> tuple[int, bool]:
    return row.step, row.group == TRAIN  # scores of step n are computed before step n, which is the next one
