"""The facts about the data of a run, which later jobs read."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.run_folder import FACTS

VOLUMES, ARRAYS = "volumes", "arrays"  # the kinds of the data of `Records`, and of custom data sets
_RAS = "RAS"  # the directions in which the axes of canonical images increase
_REQUIRED = ("resolution", "spacing", "fold_digest")  # other fields are stored only if they have a value


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts about the data of a run, stored in the run's `run.json`.

    Attributes:
      kind: the name of the kind of data. `run.json` does not store it: there, the fields of the description have the
        name of the kind, except for volumes, and arrays have no voxel size.
      resolution: voxels of the network's input, or all grids if there are several, in the format of
        `data.sampling.buckets.format_grids`.
      spacing: the voxel size in mm, in the format of `data.sampling.sampling.format_spacing`; "" if it differs
        between cases; None for other data than volumes.
      fold_digest: a short hash of the keys of the fold's cases; None without a fold.
      description: the fields that describe the data; for volumes, with the intensity schemes of the training data, as
        in a `dataset.json`. None for LiTS and for arrays.
      held_out_split: the split of the held-out images; None if the data have no splits.
      class_frequencies: the frequency of each output of the network, from which its first biases follow; None if they
        were 0.
      patch: voxels of the training patches, in the format of `data.sampling.grid.format_grid`; None for whole
        images.
      orientation: the directions in which the axes of the network's input increase, such as "LPS", if they are not
        RAS; see `nibabel.aff2axcodes`.
      resampling: "nnunet" for the resampling of nnU-Net; None for ours. See `OwnSize.follows_nnunet`.
      provenance: the training cases and the starts of the run; see `training_provenance`. None before
        `train` saves them.
    """

    kind: str
    resolution: str
    spacing: str | None = None
    fold_digest: str | None = None
    description: dict[str, Any] | None = None
    held_out_split: str | None = None
    class_frequencies: list[float] | None = None
    patch: str | None = None
    orientation: str | None = None
    resampling: str | None = None
    provenance: dict[str, Any] | None = None

    @property
    def reversed_axes(self) -> tuple[int, ...]:
        """The axes of a canonical volume, along x, y, z, that the network sees in the opposite direction."""
        return tuple(axis for axis, code in enumerate(_RAS) if code not in (self.orientation or _RAS))

    @property
    def axes(self) -> list[str]:
        """The names of the axes of the network's input."""
        return [name for name, _ in self._first_grid]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the network's input along its axes; the first grid if there are several."""
        return tuple(size for _, size in self._first_grid)

    @property
    def _first_grid(self) -> tuple[tuple[str, int], ...]:
        return parse_shape(self.resolution.partition("|")[0])

    def save(self, model_dir: str | Path) -> None:
        """Writes `run.json` to the folder of the run."""
        names = {"description": self.kind} if self.kind != VOLUMES else {}
        fields = {names.get(name, name): value for name, value in dataclasses.asdict(self).items() if name != "kind"}
        stored = {name: value for name, value in fields.items() if name in _REQUIRED or value is not None}
        write_bytes(Path(model_dir) / FACTS, (json.dumps(stored, indent=1) + "\n").encode())
