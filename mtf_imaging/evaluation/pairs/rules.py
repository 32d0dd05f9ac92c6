"""The description and the scoring rules for a folder of references."""

import dataclasses
from pathlib import Path

from mtf_imaging.data.description.dataset_json import FILE, read_description
from mtf_imaging.data.description.description import ANY_RULES, LITS, LITS_RULES, Description
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.evaluation.scoring.metrics import RESERVED

RULES = (LITS_RULES, ANY_RULES)


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


_LITS_LABELS = ", ".join(f"{value} {name}" for name, value in LITS.labels.items())


def _read(reference_dir: Path, dataset_json: str | Path | None) -> tuple[Description, Path]:
    """Returns the description, and its file or the reference folder."""
    if dataset_json is None:
        for folder in (reference_dir, reference_dir.absolute().parent):
            if description := read_description(folder):
                return description, folder / FILE
        return LITS, reference_dir
    folder = Path(dataset_json) if Path(dataset_json).is_dir() else Path(dataset_json).parent
    if folder / FILE not in (Path(dataset_json), Path(dataset_json) / FILE):
        raise DataError(
            f"{dataset_json}: the description of a data set is named {FILE}, and this is neither such a file nor a "
            f"folder. Fix: name the file {FILE} of the data set.",
            settings=["dataset_json"],
        )
    description = read_description(folder)
    if description is None:
        raise DataError(
            f"{folder / FILE}: this file does not exist or describes no labels. Fix: name the {FILE} of the data set.",
            settings=["dataset_json"],
        )
    return description, folder / FILE


def _has_lits_labels(description: Description) -> bool:
    """Returns whether the labels are 1 liver and 2, something in the liver."""
    names = {value: name.casefold() for name, value in description.labels.items()}
    is_plain = not description.has_regions and description.ignore is None
    return is_plain and sorted(names) == sorted(LITS.labels.values()) and names[1] == "liver"
