"""`losses.csv`: what every step measured, in full precision, so that two runs can be compared digit by digit."""

import csv
from pathlib import Path


class LossLog:
    """Appends a row a step to a CSV file: step, loss, the task's measures, cases. An `Observer` of the loop.

    Args:
      path: the file; made where it is missing.
    """

    def __init__(self, path):
        self._path = Path(path)
        self._file = None

    def begin(self, step):
        """Opens the file; rows from `step` on, of a run that did not get to save them, go."""
        rows = []
        if self._path.is_file():
            with open(self._path, newline="") as file:
                rows = list(csv.reader(file))
        kept = rows[:1] + [row for row in rows[1:] if len(row) == len(rows[0]) and int(row[0]) < step]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_name(self._path.name + ".part")
        with open(part, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(kept if len(kept) > 1 else [])
        part.replace(self._path)
        self._file = open(self._path, "a", newline="")  # noqa: SIM115  open as long as the run
        self._has_header = len(kept) > 1

    def after(self, step, values, cases):
        """Writes a row at once.

        Args:
          step: its number, from 0.
          values: numpy scalars by name.
          cases: keys of the cases of the batch.
        """
        writer = csv.writer(self._file, lineterminator="\n")
        if not self._has_header:
            writer.writerow(["step", *values, "cases"])
            self._has_header = True
        # str of a numpy scalar has as many digits as tell it from its neighbours.
        writer.writerow([step, *map(str, values.values()), " ".join(cases)])
        self._file.flush()

    def close(self):
        if self._file:
            self._file.close()
