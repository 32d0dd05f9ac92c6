"""The scores of all cross-validation folds side by side: a plain-text table, and `folds.csv`."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.plain_text import decimals, text_table

_MEASURES = {"dice_per_case": "Dice per case", "dice_global": "Dice global"}


def fold_table(folds: Mapping[int, dict], pooled: dict) -> str:
    """Returns a table of the Dice per fold, its mean and range over folds, and the Dice of all cases.

    >>> scores = [{"cases": {"1": {}}, "organ": {"dice_per_case": dice, "dice_global": dice}} for dice in (0.5, 0.75)]
    >>> print(fold_table({0: scores[0], 2: scores[1]}, {"cases": {"1": {}, "2": {}}, "organ": scores[0]["organ"]}))
    Dice per case  cases   organ
    fold 0             1   0.500
    fold 2             1   0.750
    mean                   0.625
    lowest                 0.500
    highest                0.750
    all cases          2   0.500
    <BLANKLINE>
    Dice global    cases   organ
    fold 0             1   0.500
    fold 2             1   0.750
    mean                   0.625
    lowest                 0.500
    highest                0.750
    all cases          2   0.500

    Args:
      folds: the contents of each fold's `metrics.json`.
      pooled: the contents of the pooled `metrics.json`.
    """
    return "\n\n".join(_table(measure, title, folds, pooled) for measure, title in _MEASURES.items())


def write_fold_table(output_dir: str | Path, folds: Mapping[int, dict]) -> None:
    """Writes `folds.csv`, one row per fold; the file is replaced atomically.

    Args:
      output_dir: the folder.
      folds: the contents of each fold's `metrics.json`.
    """
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    masks = _masks(next(iter(folds.values())))
    writer.writerow(["fold", "cases", *(f"{mask}_{measure}" for mask in masks for measure in _MEASURES)])
    for number, metrics in folds.items():
        values = (metrics[mask][measure] for mask in masks for measure in _MEASURES)
        writer.writerow([number, len(metrics["cases"]), *values])
    write_bytes(Path(output_dir) / "folds.csv", rows.getvalue().encode())


def _masks(metrics: dict) -> list[str]:
    """Returns the names of the scored masks."""
    return [name for name, scores in metrics.items() if isinstance(scores, dict) and {*_MEASURES} <= scores.keys()]


def _table(measure: str, title: str, folds: Mapping[int, dict], pooled: dict) -> str:
    masks = _masks(pooled)
    values = [[metrics[mask][measure] for mask in masks] for metrics in folds.values()]
    defined = [[value for value in column if value is not None] for column in zip(*values, strict=True)]
    statistics = {"mean": lambda column: sum(column) / len(column), "lowest": min, "highest": max}
    rows = [(title, "cases", *masks)]
    for (number, metrics), row in zip(folds.items(), values, strict=True):
        rows.append((f"fold {number}", str(len(metrics["cases"])), *map(decimals, row)))
    for name, statistic in statistics.items():
        rows.append((name, "", *(decimals(statistic(column) if column else None) for column in defined)))
    rows.append(("all cases", str(len(pooled["cases"])), *(decimals(pooled[mask][measure]) for mask in masks)))
    return "\n".join(text_table(rows, (13, 5, 6)))
