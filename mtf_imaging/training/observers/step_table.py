"""CSV files with one row per step, in full precision, which a resumed run continues at the right row."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from mtf_imaging.errors import about
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.training.observers.observer import Observer

# The same in every locale. Names of cases that are not UTF-8 keep their bytes.
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}


def read_rows(path: str | Path, step: int) -> list[dict[str, str]]:
    """Returns the complete rows of a table for the steps before `step`, dicts of strings by column.

    Args:
      path: the file; if it is missing, there are no rows.
      step: number of the first step that is left out.
    """
    if not Path(path).is_file():
        return []
    with open(path, newline="", **_TEXT) as file:
        columns, *rows = list(csv.reader(file)) or [[]]
    return [dict(zip(columns, row, strict=True)) for row in rows if len(row) == len(columns) and int(row[0]) < step]


def read_numbers(path: str | Path, step: int = 2**62) -> dict[int, dict[str, float]]:
    """Returns the numbers of a table for the steps before `step`, {step: {column: value}}; see `read_rows`."""
    rows = read_rows(path, step)
    return {
        int(row["step"]): {name: float(text) for name, text in row.items() if name not in ("step", "cases")}
        for row in rows
    }


class StepTable:
    """Appends one row per step, and drops the rows that a killed run wrote after its last checkpoint.

    Args:
      path: the file, which is created with its folder if it is missing.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._file: TextIO | None = None

    def begin(self, step: int) -> list[dict[str, str]]:
        """Opens the file, and drops its rows for `step` and later as well as incomplete rows.

        Args:
          step: the first step that the run will append.

        Returns:
          The remaining rows in the order of the file: dicts of strings by column.
        """
        kept = read_rows(self._path, step)
        self._columns = [*kept[0]] if kept else []
        self._rewrite([self._columns, *([*row.values()] for row in kept)] if kept else [])
        return kept

    def _rewrite(self, rows: Iterable[Sequence[str]]) -> None:
        """Replaces the file atomically and opens it to append rows."""
        self.close()
        with atomic_path(self._path) as temporary, open(temporary, "w", newline="", **_TEXT) as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        self._file = open(self._path, "a", newline="", **_TEXT)  # noqa: SIM115  it stays open during the run

    def append(self, step: int, values: Mapping[str, Any]) -> None:
        """Writes a row and flushes the file.

        Args:
          step: number of the step.
          values: numbers and strings by column. Earlier rows get "nan" in new columns, and this row gets "nan" in
            columns that are missing from `values`.
        """
        if set(values) - set(self._columns):
            self._add_columns(["step", *values])
        assert self._file is not None, "begin must be called first"
        # str of a number has enough digits to identify it uniquely.
        row = [step, *(str(values.get(name, math.nan)) for name in self._columns[1:])]
        csv.writer(self._file, lineterminator="\n").writerow(row)
        with about(self._path):
            self._file.flush()

    def _add_columns(self, columns: Sequence[str]) -> None:
        rows = []
        if self._columns:  # an earlier configuration wrote fewer columns
            with open(self._path, newline="", **_TEXT) as file:
                rows = [{name: row[name] for name in self._columns} for row in csv.DictReader(file)]
        self._columns = [*columns, *(name for name in self._columns if name not in columns)]
        self._rewrite([self._columns, *([row.get(name, "nan") for name in self._columns] for row in rows)])

    def close(self) -> None:
        if self._file:
            with about(self._path):
                self._file.close()


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
