"""The folder of a run: its lock, and the facts about its data that later jobs read."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.sampling.buckets import AnySampling, parse_any_sampling
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files import lock
from mtf_imaging.files.atomic import is_partial, write_bytes
from mtf_imaging.files.run_folder import CONFIG, FACTS
from mtf_imaging.layout import parse_shape
from mtf_imaging.settings.values import Resolution, Spacing

if TYPE_CHECKING:  # imports NumPy, which takes longer than the help of a command may
    from mtf_imaging.data.description.description import Description


@dataclasses.dataclass(frozen=True)
class Facts:
    """Facts about the data of a run, stored in the run's `run.json`.

    Attributes:
      resolution: voxels of the network's input, or all grids if there are several, in the format of
        `data.sampling.buckets.format_grids`.
      spacing: the voxel size in mm, in the format of `data.sampling.sampling.format_spacing`; "" if it differs
        between cases; None for a custom data set.
      fold_digest: a short hash of the keys of the fold's cases; None without a fold.
      description: the fields of the description of the data with the intensity schemes of the training, as in a
        `dataset.json`; None for LiTS and for a custom data set.
      photos: the fields of the `PhotoDescription` of the training; None for other data than photos.
      objects: the fields of the `ObjectDescription` of the training; None for other data than objects.
      held_out_split: the list of held-out photos, or the split of held-out objects; None for other data.
      class_frequencies: the frequency of each output of the network, from which its first biases follow; None if they
        were 0.
    """

    resolution: str
    spacing: str | None = None
    fold_digest: str | None = None
    description: dict[str, Any] | None = None
    photos: dict[str, Any] | None = None
    objects: dict[str, Any] | None = None
    held_out_split: str | None = None
    class_frequencies: list[float] | None = None

    @property
    def is_custom(self) -> bool:
        """Whether the run was trained on a custom data set, whose images only the data set can read."""
        return self.spacing is None and self.photos is None and self.objects is None

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
        fields = dataclasses.asdict(self)
        for name in ("description", "photos", "objects", "held_out_split", "class_frequencies"):
            if fields[name] is None:
                del fields[name]  # as in earlier releases
        text = json.dumps(fields, indent=1) + "\n"
        write_bytes(Path(model_dir) / FACTS, text.encode())


def read_facts(model_dir: str | Path) -> Facts | None:
    """Returns the facts of a run; None if its folder lacks the file.

    Raises:
      DataError: the file is damaged.
    """
    path = Path(model_dir) / FACTS
    if not path.is_file():
        return None
    try:
        return Facts(**json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: this file is damaged: {error}. Fix: delete it, then train again.") from error


def description_of_run(model_dir: str | Path) -> "Description":
    """Returns the description of the data that a run was trained on, with the intensity schemes of the training.

    Raises:
      DataError: the file of facts is damaged.
    """
    from mtf_imaging.data.description.description import LITS
    from mtf_imaging.data.description.description_fields import from_fields

    facts = read_facts(model_dir)
    if facts is None or facts.description is None:
        return LITS
    return from_fields(facts.description, str(Path(model_dir) / FACTS))


def sampling_of_run(model_dir: str | Path, resolution: Resolution | None, spacing: Spacing | None) -> AnySampling:
    """Returns the sampling of a trained network's input; a value of None is read from the run.

    Raises:
      ConfigError: the resolution is neither given nor stored in the run.
    """
    facts = read_facts(model_dir)
    if resolution is None:
        if facts is None:
            raise ConfigError(
                "the resolution is not known. Fix: give resolution, or the model_dir of a run that has a run.json.",
                ["resolution"],
            )
        resolution = facts.resolution
    if spacing is None and facts is not None:
        spacing = facts.spacing
    if not isinstance(resolution, str | int):
        resolution = ",".join(f"{name}:{size}" for name, size in zip("xyz", resolution, strict=True))
    return parse_any_sampling(resolution, spacing)


@contextlib.contextmanager
def held(model_dir: str | Path) -> Iterator[None]:
    """Locks the folder of a run within the block, so that no other process trains in it.

    Raises:
      ConfigError: the folder contains other files, or another process is training in it.
    """
    check(model_dir)
    with lock.held(model_dir, "model_dir", needed=True):
        yield


def check(model_dir: str | Path) -> None:
    """Checks that a folder is missing, is empty, or belongs to an earlier run.

    Raises:
      ConfigError: the folder contains other files.
    """
    path = Path(model_dir)
    if path.exists() and not path.is_dir():
        raise ConfigError(
            f"{path}: is a file, not a folder. Fix: give a new or empty folder as model_dir.", ["model_dir"]
        )
    others = sorted(p.name for p in path.glob("*") if not is_partial(p) and p.name != lock.NAME)
    if others and not {CONFIG, FACTS} & {*others}:
        raise ConfigError(
            f"{path}: contains {others[0]} but neither {CONFIG} nor {FACTS}, so it is not the folder of a run. "
            "Fix: give a new or empty folder as model_dir.",
            ["model_dir"],
        )
