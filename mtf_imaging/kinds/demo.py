"""The interface of a workflow: the steps of the demo for one kind of data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Command = tuple[str, dict[str, Any]]  # the name of a command and its flags


class Step(NamedTuple):
    """A step of the demo.

    Attributes:
      purpose: what the step does.
      duration: the time that it takes on 2 CPU cores with synthetic data.
      commands: a function that returns the commands of the step, when the steps before it have run.
      note: a remark.
    """

    purpose: str
    duration: str
    commands: Callable[[], list[Command]]
    note: str = ""


class Workflow:
    """The steps for one kind of data. They write `model` and `evaluation` to the output folder.

    Args:
      output_dir: the folder for all files of the demo.
      input_dir: a folder of data; None for synthetic data.
      demo: the name of the synthetic data; None if there is a folder.

    Attributes:
      synthetic: the name of the folder of synthetic data.
      data_dir: the folder that training reads.
      job: the gin files of training: the job, and a layout unless the job has one.
      job_of_one: the gin files that train the same job on one processor.
      processors: the number of processors of `job`.
      compared_duration: the time that it takes to repeat the first steps, on 2 CPU cores.
    """

    synthetic: str
    job: list[str]
    job_of_one: list[str]
    processors: int
    compared_duration: str

    def __init__(self, output_dir: Path, input_dir: Path | None, demo: str | None) -> None:
        self._is_synthetic = input_dir is None
        self.data_dir = output_dir / self.synthetic if input_dir is None else input_dir
        self._out, self._model, self._evaluation = output_dir, output_dir / "model", output_dir / "evaluation"

    def steps(self) -> list[Step]:
        """Returns the steps from data to predictions."""
        raise NotImplementedError

    def scores_table(self, metrics: dict[str, Any]) -> list[str]:
        """Returns the lines of a table of the scores.

        Args:
          metrics: the contents of `metrics.json`.
        """
        raise NotImplementedError

    def picture(self, metrics: dict[str, Any]) -> Path:
        """Returns the picture to open first.

        Args:
          metrics: the contents of `metrics.json`.
        """
        raise NotImplementedError

    def _evaluate(self, data: Path, model: Path | None = None, output: Path | None = None) -> list[Command]:
        """Returns the command that evaluates a network, by default that of `model`."""
        model, output = model or self._model, output or self._evaluation
        return [("evaluate", {"model_dir": model, "input_dir": data, "output_dir": output})]

    def _predict(self, image: Path, output: str) -> list[Command]:
        """Returns the command that predicts an image."""
        return [
            ("predict", {"model_dir": self._model, "input": image, "output": self._out / output, "overwrite": True})
        ]
