"""Writes and finds score files."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.provenance.runs import FIELD

RESULTS = ("metrics.json", "metrics.csv", "report.html")  # files of an evaluation


def has_results(folder: Path) -> bool:
    """Returns whether a folder contains all results of an evaluation, which then does not have to be repeated."""
    return all((folder / name).is_file() for name in RESULTS)


def write_metrics_files(
    output_dir: str | Path,
    metrics: dict,
    head: Iterable[str],
    rows: Iterable[Iterable[Any]],
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Writes `metrics.json` and `metrics.csv` to a folder; each file is replaced atomically.

    Args:
      output_dir: the folder.
      metrics: the contents of `metrics.json`.
      head: the column names of `metrics.csv`.
      rows: the rows; None becomes an empty field.
      provenance: the provenance of the scores, the last entry of `metrics.json`; None for none.
    """
    metrics = metrics if provenance is None else {**metrics, FIELD: provenance}
    text, table = json.dumps(metrics, indent=1, allow_nan=False) + "\n", io.StringIO()
    write_bytes(Path(output_dir) / "metrics.json", text.encode())
    csv.writer(table, lineterminator="\n").writerows([head, *rows])
    write_bytes(Path(output_dir) / "metrics.csv", table.getvalue().encode())
