"""Reads `predictions.jsonl`, the record in a folder of predictions."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.files.provenance.runs import FIELD

FILE = "predictions.jsonl"


class Record(NamedTuple):
    """The contents of a record.

    Attributes:
      made_by: everything besides the images that determines the predictions, as texts by name; None if there is no
          readable record.
      provenance: the provenance of each `predict` call that wrote files.
      entries: {file name in the folder: entry with "sha256", and "provenance", the index of its provenance}.
    """

    made_by: dict[str, str] | None
    provenance: list[dict[str, Any]]
    entries: dict[str, dict[str, Any]]

    def provenance_of(self, name: str, sha256: str | None) -> dict[str, Any] | None:
        """Returns the provenance of a file.

        Args:
          name: the name of the file in the folder.
          sha256: its digest.

        Returns:
          The provenance; None if it is not recorded, or the file has changed since.
        """
        entry = self.entries.get(name, {})
        number = entry.get(FIELD)
        if not isinstance(number, int) or not 0 <= number < len(self.provenance) or entry.get("sha256") != sha256:
            return None
        return self.provenance[number]


def read_record(folder: str | Path) -> Record:
    """Returns the record in a folder of predictions; an empty record if there is none, or if it is damaged."""
    path = Path(folder) / FILE
    made_by, provenance, entries = None, [], {}
    try:
        lines = path.read_text("utf-8").splitlines() if path.is_file() else []
        for number, text in enumerate(lines):
            try:
                line = json.loads(text)
            except ValueError:
                if number < len(lines) - 1 or number == 0:
                    raise
                continue  # the process was killed while it wrote the last line
            if "made_by" in line:
                made_by = dict(line["made_by"])
                provenance = [dict(one) for one in line.get(FIELD, ())]
            else:
                entries[str(line.pop("file"))] = dict(line)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Record(None, [], {})
    return Record(made_by, provenance, entries)
