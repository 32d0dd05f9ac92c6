"""CSV files of results; each row is added as soon as it is measured, so that a measurement can resume."""

import csv
import datetime
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.tables import read_rows

ROOT = Path(__file__).parents[2]


class Results:
    """The rows of one CSV file.

    Args:
      path: the file, which does not have to exist.
      columns: the column names, without `date` and `commit`, which every row has.
      key: the columns that identify a row; a later row replaces an earlier one.
    """

    def __init__(self, path: Path, columns: Iterable[str], key: Iterable[str]) -> None:
        self.path, self.columns, self._key = path, (*columns, "date", "commit"), tuple(key)
        self._stamp = {"date": datetime.date.today().isoformat(), "commit": _commit()}

    def rows(self) -> list[dict[str, str]]:
        """Returns the last row of every key, in file order."""
        return list({self._key_of(row): row for row in read(self.path)}.values())

    def keys(self) -> set[tuple[str, ...]]:
        """Returns the keys of all rows."""
        return {self._key_of(row) for row in self.rows()}

    def add(self, row: Mapping[str, object]) -> None:
        """Appends a row."""
        is_new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(dict(row) | self._stamp)

    def replace(self, rows: Iterable[Mapping[str, str]]) -> None:
        """Replaces all rows, for example with the last rows of another file."""
        with open(self.path, "w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    def _key_of(self, row: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(row[name] for name in self._key)


def read(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a CSV file; an empty list if it does not exist."""
    return read_rows(path) if path.exists() else []


def _commit() -> str:
    words = ["git", "rev-parse", "--short=8", "HEAD"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
