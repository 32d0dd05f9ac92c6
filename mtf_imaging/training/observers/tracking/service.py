"""The interface between a tracker and a tracking service."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

TRAIN, HELD_OUT = "train", "held_out"  # prefixes of value names


@dataclasses.dataclass(frozen=True)
class RunInfo:
    """The information that a tracking service stores about a run, in addition to its values.

    Attributes:
      project: the MLflow experiment, or the Weights & Biases project.
      name: the name of the run.
      folder: the folder of the run.
      parameters: the settings of the run by name.
      version: the version of the package.
      texts: texts by file name, such as "config.gin".
    """

    project: str
    name: str
    folder: str
    parameters: Mapping[str, str]
    version: str
    texts: Mapping[str, str]


class Row(NamedTuple):
    """Values that belong to one step.

    Attributes:
      group: `TRAIN` for the values of a step, or `HELD_OUT` for the scores of an evaluation.
      step: number of the step from 0, or of the steps before the evaluation.
      values: the values by name.
    """

    group: str
    step: int
    values: Mapping[str, float]

    @property
    def named(self) -> dict[str, float]:
        """The values by displayed name, such as "train/loss"."""
        return {f"{self.group}/{name}": value for name, value in self.values.items()}


class Service(Protocol):
    """A tracking service. All methods are called by one thread, and may raise any exception."""

    title: str  # the name of the service in messages

    def connect(self, info: RunInfo) -> str:
        """Imports the package of the service.

        Returns:
          Where the run is stored: a server and a project. A run can be continued only in the same place.
        """

    def open(self, info: RunInfo, run_id: str | None) -> tuple[str, dict[str, int]]:
        """Creates a run, or continues the run with this id.

        Returns:
          The id of the run, and the last step of each group that the service has, as far as it knows.
        """

    def log(self, rows: Sequence[Row]) -> None:
        """Stores values."""

    def close(self, is_complete: bool) -> None:
        """Ends the run.

        Args:
          is_complete: whether the last step of the training has been logged.
        """
