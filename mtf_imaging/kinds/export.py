"""The information from a run and its settings that every export of a trained network needs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.settings.inference import ExportSettings

if TYPE_CHECKING:
    from mtf_imaging.evaluation.export.networks import TrainedNetworks


class ExportedRun(NamedTuple):
    """A run whose networks are exported, with the settings of `export`."""

    own: ExportSettings
    runs: tuple[Path, ...]
    flips: tuple[str, ...]

    def networks(self, sizes: Sequence[tuple[int, ...]], description: object) -> "TrainedNetworks":
        """Builds the networks for images of some sizes."""
        from mtf_imaging.evaluation.export.networks import TrainedNetworks  # imported here because of TensorFlow

        own, task = self.own, task_for(self.own.task, description)
        networks = TrainedNetworks(task, sizes, self.runs, own.checkpoint, own.dtype, own.progress, own.averages)
        if description is not None and isinstance(networks.image_dims, dict):
            raise ConfigError(
                f"the network of task {type(task).__name__} has the inputs {', '.join(networks.image_dims)}, but "
                "one for files of images has the single input image. Fix: use a task whose predict takes only image.",
                ["task"],
            )
        return networks

    def sizes(self, facts: Facts) -> tuple[tuple[int, ...], ...]:
        """Returns the sizes of the network's input, in ascending order."""
        resolution = facts.resolution if self.own.resolution is None else self.own.resolution
        if isinstance(resolution, str | int):
            return parse_grids(resolution, len(facts.axes), facts.axes)
        return (tuple(int(size) for size in resolution),)
