"""The results of all runs as a CSV file and as tables."""

import json
from pathlib import Path

from benchmarks.learning.runner import RESULT
from benchmarks.tables import write_rows

CASES = "learning_cases.csv"
_RUN = ("contender", "seed", "steps", "cpu_seconds")


def write(output_dir: Path) -> None:
    """Collects the results of all finished runs in a folder, a row for each case and threshold."""
    paths = sorted(output_dir.glob(f"*/{RESULT}"), key=lambda path: path.stat().st_mtime)
    rows = []
    for path in paths:
        run = json.loads(path.read_text())
        rows += [{name: run[name] for name in _RUN} | row for row in run["cases"]]
    if rows:
        write_rows(output_dir / CASES, list(rows[0]), rows)
