"""Reads tables and scores, to compare those of two runs, layouts or processes, whose provenance differs."""

import csv
import json
import re
from pathlib import Path
from typing import Any


def read_rows(path: str | Path) -> list[dict[str, str]]:
    """Returns the rows of a CSV file as dicts of texts."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def read_losses(model_dir: Path) -> list[float]:
    """Returns the losses of the steps of a run."""
    return [float(row["loss"]) for row in read_rows(model_dir / "losses.csv")]


def read_scores(output_dir: str | Path) -> dict[str, Any]:
    """Returns the contents of `metrics.json` without the provenance, in the order of the file."""
    metrics = json.loads((Path(output_dir) / "metrics.json").read_text())
    assert metrics.pop("provenance")["package"]["version"]
    return metrics


def read_results(output_dir: str | Path) -> dict[str, Any]:
    """Returns the contents of all files of an evaluation by name, without the provenance."""
    folder = Path(output_dir)
    files: dict[str, Any] = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}
    files["metrics.json"] = read_scores(folder)
    files["report.html"] = without_provenance(files["report.html"].decode())
    return files


def without_provenance(page: str) -> str:
    """Returns a report without the table of its provenance."""
    text, count = re.subn(r'<details id="provenance">.*?</details>', "", page, flags=re.DOTALL)
    assert count == 1
    return text
