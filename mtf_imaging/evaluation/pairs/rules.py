"""The description and the scoring rules for a folder of references."""

import dataclasses
import math
from pathlib import Path

from mtf_imaging.data.description.dataset_json import FILE, read_description
from mtf_imaging.data.description.description import ANY_RULES, LITS, LITS_RULES, Description
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.volume_scores.case import TOLERANCE_MM
from mtf_imaging.evaluation.volume_scores.metrics_files import RESERVED

RULES = (LITS_RULES, ANY_RULES)
_LITS_LABELS = ", ".join(f"{value} {name}" for name, value in LITS.labels.items())


@dataclasses.dataclass(frozen=True)
class Scoring:
    """How segmentations in files are read and scored.

    Attributes:
      description: the meaning of the labels and channels, and the scoring rules.
      known: voxel sizes of files whose headers lack them.
      surface_tolerance: the largest distance in mm that the surface Dice accepts.

    Raises:
      ConfigError: the tolerance is not positive.
    """

    description: Description = LITS
    known: SpacingTable = NO_TABLE
    surface_tolerance: float = TOLERANCE_MM

    def __post_init__(self) -> None:
        if not 0 < self.surface_tolerance < math.inf:
            raise ConfigError(
                f"surface_tolerance = {self.surface_tolerance:g}: the tolerance of the surface Dice is not a positive "
                "number of mm. Fix: set it to the distance in mm that you accept, for instance 1.",
                settings=["surface_tolerance"],
            )


LITS_SCORING = Scoring()


def choose_description(
    reference_dir: str | Path, rules: str | None = None, dataset_json: str | Path | None = None
) -> Description:
    """Returns the description of the references, with the scoring rules.

    Args:
      reference_dir: folder of references.
      rules: "lits" or "any"; None uses the description's rules.
      dataset_json: path of a `dataset.json`, or of its folder. Default: the file in the reference folder or in
        its parent folder. Without one, the LiTS labels.

    Raises:
      ConfigError: `rules` is unknown.
      DataError: the file is missing or malformed, the LiTS rules are chosen for other labels, or a mask has the name
        of another key of `metrics.json`.
    """
    if rules not in (None, *RULES):
        raise ConfigError(
            f"rules = {rules!r}: there are no such rules. Fix: use {' or '.join(map(repr, RULES))}.", settings=["rules"]
        )
    description, where = _read(Path(reference_dir), dataset_json)
    if rules == LITS_RULES and description.rules != LITS_RULES:
        if not _has_lits_labels(description):
            listed = ", ".join(f"{value} {name}" for name, value in description.labels.items())
            raise DataError(
                f"{where}: the labels are {listed}, but the rules 'lits' are for {_LITS_LABELS}. "
                f"Fix: use the rules 'any'.",
                settings=["rules"],
            )
        description = dataclasses.replace(LITS, channels=description.channels, file_ending=description.file_ending)
    elif rules == ANY_RULES:
        description = dataclasses.replace(description, rules=ANY_RULES)
    taken = [mask for mask in description.masks if mask in RESERVED]
    if taken and description.rules != LITS_RULES:
        raise DataError(
            f"{where}: a label is named '{taken[0]}', which is the name of another key of metrics.json "
            f"({', '.join(RESERVED)}). Fix: rename the label."
        )
    return description


def _read(reference_dir: Path, dataset_json: str | Path | None) -> tuple[Description, Path]:
    """Returns the description, and its file or the reference folder."""
    if dataset_json is None:
        for folder in (reference_dir, reference_dir.absolute().parent):
            if description := read_description(folder):
                return description, folder / FILE
        return LITS, reference_dir
    path = Path(dataset_json)
    path = path / FILE if path.is_dir() else path
    description = read_description(path.parent) if path.name == FILE else None
    if description is None:
        raise DataError(
            f"{dataset_json}: this is not a file {FILE} that describes labels, or a folder with one. "
            f"Fix: name the {FILE} of the data set.",
            settings=["dataset_json"],
        )
    return description, path


def _has_lits_labels(description: Description) -> bool:
    """Returns whether the labels are 1 liver and 2, something in the liver."""
    names = {value: name.casefold() for name, value in description.labels.items()}
    is_plain = not description.has_regions and description.ignore is None
    return is_plain and sorted(names) == sorted(LITS.labels.values()) and names[1] == "liver"
