"""A CSV file with a row a step, in full precision, which a run that goes on continues from the right row."""

import csv
import math
from pathlib import Path

from mtf_imaging.errors import about


class StepTable:
    """Appends rows that begin with a step; those that a killed run wrote past its last checkpoint go.

    Args:
      path: the file; made, with its folder, where it is missing.
    """

    def __init__(self, path):
        self._path = Path(path)
        self._file = None

    def begin(self, step):
        """Opens the file; rows of `step` and later, and one that is not whole, go.

        Returns:
          The rows that stay: dicts of strings by column, in the order of the file.
        """
        rows = []
        if self._path.is_file():
            with open(self._path, newline="") as file:
                rows = list(csv.reader(file))
        kept = [row for row in rows[1:] if len(row) == len(rows[0]) and int(row[0]) < step]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._columns = rows[0] if kept else []
        self._rewrite([self._columns, *kept] if kept else [])
        return [dict(zip(self._columns, row, strict=True)) for row in kept]

    def _rewrite(self, rows):
        """Replaces the file atomically and opens it to append rows."""
        self.close()
        part = self._path.with_name(self._path.name + ".part")
        try:
            with about(self._path), open(part, "w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(rows)
            part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)
        self._file = open(self._path, "a", newline="")  # noqa: SIM115  open as long as the run

    def append(self, step, values):
        """Writes a row at once.

        Args:
          step: its number.
          values: numbers and strings by column. New columns are "nan" in earlier rows; columns that are missing
            here are "nan" in this row.
        """
        if set(values) - set(self._columns):
            self._add_columns(["step", *values])
        # str of a number has as many digits as tell it from its neighbours.
        row = [step, *(str(values.get(name, math.nan)) for name in self._columns[1:])]
        csv.writer(self._file, lineterminator="\n").writerow(row)
        with about(self._path):
            self._file.flush()

    def _add_columns(self, columns):
        rows = []
        if self._columns:  # an earlier release or configuration wrote fewer columns
            with open(self._path, newline="") as file:
                rows = [{name: row[name] for name in self._columns} for row in csv.DictReader(file)]
        self._columns = [*columns, *(name for name in self._columns if name not in columns)]
        self._rewrite([self._columns, *([row.get(name, "nan") for name in self._columns] for row in rows)])

    def close(self):
        if self._file:
            with about(self._path):
                self._file.close()
