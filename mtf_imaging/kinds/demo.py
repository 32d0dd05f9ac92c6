"""The interface of a workflow: the steps of the demo for one kind of data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

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


class Workflow(Protocol):
    """The steps for one kind of data.

    Attributes:
      data_dir: the folder that training reads.
      job: the gin files of training: the job, and a layout unless the job has one.
      job_of_one: the gin files that train the same job on one processor.
      processors: the number of processors of `job`.
      compared_duration: the time that it takes to repeat the first steps, on 2 CPU cores.
    """

    data_dir: Path
    job: list[str]
    job_of_one: list[str]
    processors: int
    compared_duration: str

    def steps(self) -> list[Step]:
        """Returns the steps from data to predictions. They write `model` and `evaluation` to the output folder."""

    def scores_table(self, metrics: dict[str, Any]) -> list[str]:
        """Returns the lines of a table of the scores.

        Args:
          metrics: the contents of `metrics.json`.
        """

    def picture(self, metrics: dict[str, Any]) -> Path:
        """Returns the picture to open first.

        Args:
          metrics: the contents of `metrics.json`.
        """
