"""Tables of results: reading CSV files, Markdown, and scores over seeds."""

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mtf_imaging.files.atomic import atomic_path


def read_rows(path: str | Path) -> list[dict[str, str]]:
    """Returns the rows of a CSV file as dicts of strings by column."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_rows(path: str | Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes dicts of values by column as a CSV file, atomically."""
    with atomic_path(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a Markdown table."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows))


def mean_and_range(values: Sequence[float]) -> str:
    """Formats the mean and range over seeds: `0.500 (0.250 to 0.750)`."""
    if not values:
        return "-"
    spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"
