"""The history of a training: its losses and scores, and the trained network as a function."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.data.pairs import Arrays
from mtf_imaging.files.run_folder import EVAL
from mtf_imaging.inference.network import Prediction
from mtf_imaging.jobs.array_networks import evaluate, predict
from mtf_imaging.training.observers.step_table import read_numbers
from mtf_imaging.training.task import Task


class History:
    """A finished training.

    Attributes:
      task: the task, which `mi.jobs` takes as well.
      model_dir: the folder of the run.
      stopped: why a callback or `stop` ended the training; None if it made all steps.
      measures: {output: its measure of held-out samples}, for `evaluate`; a single output is called "".
    """

    def __init__(
        self, task: Task, model_dir: str | Path, stopped: str | None = None, measures: Mapping[str, str] | None = None
    ) -> None:
        self.task, self.model_dir, self.stopped, self.measures = task, Path(model_dir), stopped, measures or {}

    def __repr__(self) -> str:
        losses = self.losses.get("loss", [])
        last = f", last loss {losses[-1]:.4g}" if losses else ""
        return f"<History of {len(losses)} steps{last}, run in {self.model_dir}>"

    @functools.cached_property
    def losses(self) -> dict[str, list[float]]:
        """The loss and the measures of the task after each step, and "step", by name."""
        return _columns(self.model_dir / "losses.csv")

    @functools.cached_property
    def scores(self) -> dict[str, list[float]]:
        """The scores of the held-out samples, and the "step" of each, by name."""
        return _columns(self.model_dir / EVAL / "scores.csv")

    def predict(self, x: Arrays, **options: Any) -> Prediction:
        """Returns the predictions for images in arrays; see `mi.predict`."""
        return predict(self.task, x, model_dir=self.model_dir, **options)

    def evaluate(self, x: Arrays, y: Arrays, **options: Any) -> dict[str, float]:
        """Returns the scores of the predictions for images with targets, by measure.

        Args:
          x, y: images and targets, as in `fit`; a tuple of targets has the order of the outputs in `measures`.
          **options: the options of `predict`.
        """
        return evaluate(self.task, x, y, model_dir=self.model_dir, measures=self.measures, **options)


def _columns(path: Path) -> dict[str, list[float]]:
    """Returns the columns of a table of steps that contain numbers."""
    columns: dict[str, list[float]] = {}
    for step, values in read_numbers(path).items():
        for name, value in {"step": step, **values}.items():
            columns.setdefault(name, []).append(float(value))
    return columns
