"""The information from a run and its settings that every export of a trained network needs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.errors import ConfigError
from mtf_imaging.kinds.facts import Facts
from mtf_imaging.kinds.networks import task_for
from mtf_imaging.settings.inference import ExportSettings
from mtf_imaging.settings.setting import settings_of

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
        return TrainedNetworks(task, sizes, self.runs, own.checkpoint, own.dtype, own.progress, own.averages)

    def sizes(self, facts: Facts) -> tuple[tuple[int, ...], ...]:
        """Returns the sizes of the network's input, in ascending order."""
        resolution = facts.resolution if self.own.resolution is None else self.own.resolution
        if isinstance(resolution, str | int):
            return parse_grids(resolution, len(facts.axes), facts.axes)
        return (tuple(int(size) for size in resolution),)

    def check_defaults(self, why: Mapping[str, str]) -> None:
        """Checks settings that `evaluate` and `predict` take, but a model cannot have.

        Args:
          why: {setting: why a model cannot have it}.

        Raises:
          ConfigError: a setting does not have its default.
        """
        for one in settings_of(ExportSettings):
            if one.name in why and tuple(getattr(self.own, one.name)) != one.default:
                shown = tuple(getattr(self.own, one.name))
                raise ConfigError(
                    f"{one.name} = {shown!r} has no effect: {why[one.name]}. Fix: leave {one.name} out.", [one.name]
                )
