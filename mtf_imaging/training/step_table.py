"""A CSV file with a row a step, in full precision, which a run that goes on continues from the right row."""

import csv
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
        kept = rows[:1] + [row for row in rows[1:] if len(row) == len(rows[0]) and int(row[0]) < step]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_name(self._path.name + ".part")
        try:
            with about(self._path), open(part, "w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(kept if len(kept) > 1 else [])
            part.replace(self._path)
        finally:
            part.unlink(missing_ok=True)
        self._file = open(self._path, "a", newline="")  # noqa: SIM115  open as long as the run
        self._has_header = len(kept) > 1
        return [dict(zip(kept[0], row, strict=True)) for row in kept[1:]]

    def append(self, step, values):
        """Writes a row at once.

        Args:
          step: its number.
          values: numbers and strings by column, the same columns every time.
        """
        writer = csv.writer(self._file, lineterminator="\n")
        if not self._has_header:
            writer.writerow(["step", *values])
            self._has_header = True
        # str of a number has as many digits as tell it from its neighbours.
        writer.writerow([step, *map(str, values.values())])
        with about(self._path):
            self._file.flush()

    def close(self):
        if self._file:
            with about(self._path):
                self._file.close()
