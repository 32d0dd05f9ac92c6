"""The labels that the values in a file stand for, by the description and by the names that the file states itself."""

import re
from collections.abc import Mapping

from mtf_imaging.data.description.description import BACKGROUND, Description

_WORDS = re.compile(r"[^\W_]+")


def names_of_values(description: Description) -> dict[int, str]:
    """Returns the names of all permitted labels, by their value in files."""
    names = {BACKGROUND: "background", **{value: name for name, value in description.labels.items()}}
    if description.ignore is not None:
        names[description.ignore] = "ignore"
    return {description.stored.get(label, label): name for label, name in names.items()}


def labels_of_values(description: Description, stated: Mapping[int, str]) -> dict[int, int]:
    """Returns the label of each permitted value of a file.

    If the names in the file give a value another label than the description does, the names decide, and only values
    with names are permitted. The order of their words, case and punctuation do not matter.

    >>> from mtf_imaging.data.description.description import LITS
    >>> labels_of_values(LITS, {}), labels_of_values(LITS, {1: "Lesion", 2: "liver"})
    ({0: 0, 1: 1, 2: 2}, {0: 0, 1: 2, 2: 1})

    Args:
      description: the labels.
      stated: the names in the file by value; {} if it states none.
    """
    names = names_of_values(description)
    label_of = {stored: label for label, stored in description.stored.items()}
    own = {value: label_of.get(value, value) for value in names}
    by_name = {_words(name): own[value] for value, name in names.items()}
    named = {value: by_name[_words(name)] for value, name in stated.items() if _words(name) in by_name}
    if all(own.get(value) == label for value, label in named.items()):
        return own
    return {BACKGROUND: BACKGROUND, **named}


def listed(description: Description) -> str:
    """Returns the permitted values in files with their names, for messages."""
    return ", ".join(f"{value} {name}" for value, name in names_of_values(description).items())


def label_values(description: Description) -> str:
    """Returns the names of the labels with their values in files, for messages."""
    return ", ".join(f"{name} = {value}" for value, name in names_of_values(description).items() if value)


def description_rows(description: Description) -> list[tuple[str, str]]:
    """Returns the channels, labels and masks of a data set, as names and texts."""
    channels = zip(description.channels, description.intensities, strict=True)
    rows = [
        ("channels", ", ".join(f"{name} ({scheme})" for name, scheme in channels)),
        ("labels", label_values(description)),
    ]
    if description.has_regions or any(len(values) > 1 for values in description.masks.values()):
        masks = (f"{name} = {'+'.join(map(str, values))}" for name, values in description.masks.items())
        rows.append(("regions" if description.has_regions else "masks", ", ".join(masks)))
    return rows


def _words(name: str) -> tuple[str, ...]:
    return tuple(sorted(_WORDS.findall(name.casefold())))
