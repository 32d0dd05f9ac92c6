"""The information from a run and its settings that every export of a trained network needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.cleanup import AS_FOUND, as_cleanup
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.settings.inference import ExportSettings
from mtf_imaging.settings.patches import SlidingWindowSettings

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.networks import TrainedNetworks


class ExportedRun(NamedTuple):
    """A run whose networks are exported, with the settings of `export`."""

    own: ExportSettings
    runs: tuple[Path, ...]
    flips: tuple[str, ...]

    def networks(self, sizes: Sequence[tuple[int, ...]], description: Any) -> "TrainedNetworks":
        """Builds the networks for images of some sizes."""
        from mtf_imaging.evaluation.export.networks import (
            TrainedNetworks,  # imported here because it imports TensorFlow
        )

        task = task_for(self.own.task, description)
        own = self.own
        return TrainedNetworks(task, sizes, self.runs, own.checkpoint, own.dtype, own.progress, own.averages)

    def sizes(self, facts: Facts) -> tuple[tuple[int, ...], ...]:
        """Returns the sizes of the network's input, in ascending order."""
        resolution = facts.resolution if self.own.resolution is None else self.own.resolution
        if isinstance(resolution, str | int):
            return parse_grids(resolution, len(facts.axes), facts.axes)
        return (tuple(int(size) for size in resolution),)

    def check_no_flips(self) -> None:
        """Raises ConfigError if flips are set for images whose predictions are not averaged."""
        if self.flips:
            raise ConfigError(
                f"flips = {self.flips!r} has no effect: only the probabilities of volumes and photos are averaged. "
                "Fix: leave flips out.",
                ["flips"],
            )

    def check_no_spacing(self) -> None:
        """Raises ConfigError if a voxel size is set for images without one."""
        if self.own.spacing is not None:
            raise ConfigError(
                f"spacing = {self.own.spacing!r} has no effect: images of this run have no voxel size. "
                "Fix: leave spacing out.",
                ["spacing"],
            )

    def check_no_cleanup(self) -> None:
        """Raises ConfigError if rules for components are set for images that are not volumes."""
        if as_cleanup(self.own.cleanup) != AS_FOUND:
            raise ConfigError(
                f"cleanup = {self.own.cleanup!r} has no effect: its rules are for the labels of volumes. "
                "Fix: leave cleanup out.",
                ["cleanup"],
            )

    def check_no_window(self) -> None:
        """Raises ConfigError if a sliding window is set for images that are computed as a whole."""
        for name in ("sliding_window", "window_step"):
            value, default = getattr(self.own, name), getattr(SlidingWindowSettings, name)
            if value != default:
                raise ConfigError(
                    f"{name} = {value!r} has no effect: a window slides only over volumes. Fix: leave {name} out.",
                    [name],
                )
