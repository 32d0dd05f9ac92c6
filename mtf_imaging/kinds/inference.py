"""The settings of `evaluate` and `predict` that concern the images."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable, read_spacing_table
from mtf_imaging.data.window import DEFAULT_WINDOW, Window
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.cleanup import AS_FOUND, Cleanup
from mtf_imaging.settings.values import ONE_SCALE, Resolution, Spacing


@dataclasses.dataclass(frozen=True)
class Inference:
    """The settings of `evaluate` and `predict` that concern the images.

    Each kind of image has settings of its own. It refuses other values of the remaining settings than the defaults.

    Attributes:
      resolution: the size of the network's input; None for the resolution of the run.
      spacing: the voxel size of the network's input in mm; None for the spacing of the run.
      window: the intensity window (low, high) in HU.
      cleanup: the postprocessing of the segmentation.
      flips: the axes to flip.
      scales: the factors by which images are enlarged.
      fold: the fold whose held-out cases are evaluated; None for all cases.
      splits_file: the file of folds; None for the file in the folder of the run.
      split: the list of photos, or the split of objects, to evaluate; None for the held-out one of the training.
      ensemble: whether the networks of several runs are averaged.
      submission: whether to write a submission to the LiTS challenge.
      spacing_table: voxel sizes of files whose headers lack them.
      output_format: the file format of segmentations of volumes; None for the format of each volume.
    """

    resolution: Resolution | None = None
    spacing: Spacing | None = None
    window: Window = DEFAULT_WINDOW
    cleanup: Cleanup = AS_FOUND
    flips: Sequence[str] = ()
    scales: Sequence[float] = ONE_SCALE
    fold: int | None = None
    splits_file: str | Path | None = None
    split: str | None = None
    ensemble: bool = False
    submission: bool = False
    spacing_table: SpacingTable = NO_TABLE
    output_format: str | None = None

    @classmethod
    def of(cls, values: object) -> "Inference":
        """Returns the settings of a job that concern the images.

        Args:
          values: an object with settings as attributes; those that it lacks have their defaults.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        given = {name: getattr(values, name) for name in names if getattr(values, name, None) is not None}
        return cls(**given | {"spacing_table": read_spacing_table(given.get("spacing_table"))})

    def check_idle(self, why: Mapping[str, str]) -> None:
        """Checks that settings without effect have their defaults.

        Args:
          why: {setting: why it has no effect}.

        Raises:
          ConfigError: a setting has another value.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in why and not _equal(value, field.default):
                shown = "" if field.name == "spacing_table" else f" = {value!r}"
                raise ConfigError(
                    f"{field.name}{shown} has no effect: {why[field.name]}. Fix: leave {field.name} out.", [field.name]
                )


def _equal(value: object, default: object) -> bool:
    if isinstance(value, list | tuple):  # gin and callers write lists and tuples
        return isinstance(default, tuple) and tuple(value) == default
    return value == default
