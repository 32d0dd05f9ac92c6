"""Reads scores, to compare those of two runs, layouts or processes, whose provenance differs."""

import json
from pathlib import Path
from typing import Any


def read_scores(output_dir: str | Path) -> dict[str, Any]:
    """Returns the contents of `metrics.json` without the provenance, in the order of the file."""
    metrics = json.loads((Path(output_dir) / "metrics.json").read_text())
    assert metrics.pop("provenance")["package"]["version"]
    return metrics
