"""The summary of the demo: losses, scores, and the paths of the results."""

import csv
import json
import shlex
from pathlib import Path

from mtf_imaging.kinds.demo import Workflow

COMPARED_STEPS = 5


def compared_folders(output_dir: Path, processors: int) -> tuple[Path, Path]:
    """Returns the folders of the runs that repeat the first steps, on several processors and on one."""
    return output_dir / f"compared_{processors}", output_dir / "compared_1"


def summarize(output_dir: Path, workflow: Workflow) -> str:
    """Returns the losses with and without a layout, the table of scores, and the paths of the results.

    Args:
      output_dir: the folder of the demo.
      workflow: the steps that ran.
    """
    split, single = (_losses(folder) for folder in compared_folders(output_dir, workflow.processors))
    evaluation = output_dir / "evaluation"
    metrics = json.loads((evaluation / "metrics.json").read_text())
    rows = [
        f"step {step:<10}{split[step]:16.12f} {single[step]:16.12f}" for step in sorted(split.keys() & single.keys())
    ]
    return "\n".join(
        [
            f"{'Losses':15}{f'{workflow.processors} processors':>16} {'1 processor':>16}",
            *rows,
            "",
            *workflow.scores_table(metrics),
            "",
            f"Report with tables, plots and pictures, for a browser: {evaluation / 'report.html'}",
            f"Picture: {workflow.picture(metrics)}",
            f"Training curves and pictures: tensorboard --logdir {shlex.quote(str(output_dir / 'model'))}",
        ]
    )


def _losses(model_dir: Path) -> dict[int, float]:
    """Returns the losses of the first steps, {step: loss}, from the `losses.csv` of a run."""
    with open(model_dir / "losses.csv", newline="", encoding="utf-8") as file:
        rows = [(int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]
    return dict(sorted(rows)[:COMPARED_STEPS])
