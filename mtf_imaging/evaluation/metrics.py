"""Write scores: `metrics.json` for programs, a CSV with a row a case for spreadsheets, a table for people."""

import csv
import io
import json
from pathlib import Path

from mtf_imaging.data.atomic import write_bytes
from mtf_imaging.evaluation.dice import MASKS, DiceScores


def metrics_dict(scores: DiceScores) -> dict:
    """The contents of `metrics.json`.

    Returns:
      `{"cases": {key: {"liver": {"dice": ...}, "lesion": {"dice": ...}}}, "liver": {"dice_per_case": ...,
      "dice_global": ...}, "lesion": {...}}`.
    """
    cases = {key: {name: {"dice": counts[name].dice} for name in MASKS} for key, counts in scores.cases.items()}
    totals = {
        name: {"dice_per_case": scores.dice_per_case(name), "dice_global": scores.dice_global(name)} for name in MASKS
    }
    return {"cases": cases, **totals}


def write_metrics(output_dir: str | Path, scores: DiceScores) -> None:
    """Writes `metrics.json` and `metrics.csv` into a folder, each whole or not at all."""
    text = json.dumps(metrics_dict(scores), indent=1, allow_nan=False) + "\n"
    write_bytes(Path(output_dir) / "metrics.json", text.encode())
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(["case", *(f"{name}_dice" for name in MASKS)])
    for key, counts in scores.cases.items():
        writer.writerow([key, *(counts[name].dice for name in MASKS)])
    write_bytes(Path(output_dir) / "metrics.csv", rows.getvalue().encode())


def dice_table(scores: DiceScores) -> str:
    """A plain-text table of the Dice of each case, their mean, and the global Dice.

    >>> import numpy as np
    >>> scores = DiceScores()
    >>> _ = scores.add("0", np.array([0, 1, 2]), np.array([1, 1, 2]))
    >>> print(dice_table(scores))
    Dice       liver  lesion
    0          0.800   1.000
    per case   0.800   1.000
    global     0.800   1.000
    """
    rows = [(key, [counts[name].dice for name in MASKS]) for key, counts in scores.cases.items()]
    rows.append(("per case", [scores.dice_per_case(name) for name in MASKS]))
    rows.append(("global", [scores.dice_global(name) for name in MASKS]))
    width = max(8, *(len(label) for label, _ in rows))
    lines = [f"{'Dice':{width}}" + "".join(f"{name:>8}" for name in MASKS)]
    lines += [f"{label:{width}}" + "".join(f"{dice:8.3f}" for dice in values) for label, values in rows]
    return "\n".join(lines)
