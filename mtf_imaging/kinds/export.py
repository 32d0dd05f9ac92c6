"""What the export of a trained network needs from its run and its settings, whatever the kind of the data."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.intensity import Window
from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.kinds.settings import Resolution, Spacing

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.networks import TrainedNetworks
    from mtf_imaging.training.task import Task


@dataclasses.dataclass(frozen=True)
class ExportSettings:
    """The settings of `export`.

    Attributes:
      task: the network that the runs trained.
      runs: the folders of the runs.
      checkpoint: "last" or "best".
      dtype: the dtype of activations.
      resolution: the size of the network's input, or several sizes; None for that of the run.
      spacing: voxel size of the network's input in mm; None for the spacing of the run.
      window: intensity window (low, high) in HU.
      flips: axes to flip.
      scales: the factors by which images are enlarged.
      progress: whether to show progress on stderr.
    """

    task: "Task"
    runs: tuple[Path, ...]
    checkpoint: str
    dtype: str
    resolution: Resolution | None
    spacing: Spacing | None
    window: Window
    flips: tuple[str, ...]
    scales: tuple[float, ...]
    progress: bool

    def networks(self, sizes: Sequence[tuple[int, ...]], description: Any) -> "TrainedNetworks":
        """Builds the networks for images of some sizes."""
        from mtf_imaging.evaluation.export.networks import (
            TrainedNetworks,  # imported here because it imports TensorFlow
        )

        task = task_for(self.task, description)
        return TrainedNetworks(task, sizes, self.runs, self.checkpoint, self.dtype, self.progress)

    def sizes(self, facts: Facts) -> tuple[tuple[int, ...], ...]:
        """Returns the sizes of the network's input, in ascending order."""
        resolution = facts.resolution if self.resolution is None else self.resolution
        if isinstance(resolution, str | int):
            return parse_grids(resolution, len(facts.axes), facts.axes)
        return (tuple(int(size) for size in resolution),)

    def check_no_flips(self) -> None:
        """Raises ConfigError if there are axes to flip, for images whose predictions are not averaged."""
        if self.flips:
            raise ConfigError(
                f"flips = {self.flips!r} has no effect: only the probabilities of volumes and photos are averaged. "
                "Fix: leave flips out.",
                ["flips"],
            )

    def check_no_spacing(self) -> None:
        """Raises ConfigError if there is a voxel size, for images that have none."""
        if self.spacing is not None:
            raise ConfigError(
                f"spacing = {self.spacing!r} has no effect: images of this run have no voxel size. Fix: leave spacing "
                "out.",
                ["spacing"],
            )
