"""The held-out scores of the demo over several seeds, for docs/start/demo.md."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tables import markdown, mean_and_range, read_rows
from mtf_imaging.files.atomic import atomic_path

_MASKS = ("liver", "lesion")


def read_runs(study: Path) -> list[list[str]]:
    """Returns the Dice of each held-out case in each run of a study.

    Args:
      study: the folder of a study at one resolution, which contains runs `SIZE_seed_SEED`.

    Returns:
      Rows with the seed, the case name, the liver Dice and the lesion Dice. The cases "per case" and
      "global" are the means over cases and the Dice of all cases combined.
    """
    rows = []
    for metrics in study.glob("*_seed_*/evaluation/metrics.json"):
        seed = re.search(r"_seed_(\d+)", metrics.parts[-3])[1]
        content = json.loads(metrics.read_text())
        dice = {f"case {case}": [scores[mask]["dice"] for mask in _MASKS] for case, scores in content["cases"].items()}
        for name in ("per_case", "global"):
            dice[name.replace("_", " ")] = [content["official"][f"{mask}_dice_{name}"] for mask in _MASKS]
        rows += [[seed, case, *(f"{value:.4f}" for value in values)] for case, values in dice.items()]
    return sorted(rows, key=lambda row: int(row[0]))


def write_scores(rows: Sequence[Sequence[str]], path: Path) -> None:
    """Writes the rows of `read_runs` as a CSV file."""
    with atomic_path(path) as temporary, open(temporary, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["seed", "case", *_MASKS], *rows])


def scores_table(path: Path) -> str:
    """Returns a Markdown table with the mean and range of each score over the seeds."""
    rows, lines = read_rows(path), []
    for case in dict.fromkeys(row["case"] for row in rows):
        own = [row for row in rows if row["case"] == case]
        cells = (mean_and_range([float(row[mask]) for row in own]) for mask in _MASKS)
        lines.append([case, *cells])
    return markdown([f"Dice, {len({row['seed'] for row in rows})} seeds", *_MASKS], lines)
