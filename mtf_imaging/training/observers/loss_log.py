"""`losses.csv`: what every step measured, in full precision, so that two runs can be compared digit by digit."""

from pathlib import Path
from typing import Any

from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.step_table import StepTable


class LossLog(Observer):
    """Writes a row a step to a CSV file: step, loss, the task's measures, cases.

    Args:
      path: the file; made where it is missing.
    """

    def __init__(self, path: str | Path) -> None:
        self._table = StepTable(path)

    def begin(self, step: int) -> None:
        self._table.begin(step)

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        self._table.append(step, {**values, "cases": " ".join(cases)})

    def close(self) -> None:
        self._table.close()
