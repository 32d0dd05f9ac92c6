"""`losses.csv`: the loss and the measures of every step, in full precision, so that runs can be compared exactly."""

from pathlib import Path
from typing import Any

from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.step_table import StepTable


class LossLog(Observer):
    """Writes one row per step to a CSV file, with the step, the loss, the task's measures and the cases.

    Args:
      path: the file, which is created if it is missing.
    """

    def __init__(self, path: str | Path) -> None:
        self._table = StepTable(path)

    def begin(self, step: int) -> None:
        self._table.begin(step)

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        self._table.append(step, {**values, "cases": " ".join(cases)})

    def close(self) -> None:
        self._table.close()
