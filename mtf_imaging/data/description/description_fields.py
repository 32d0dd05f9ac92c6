"""Converts data set descriptions to JSON fields and back, in the format of nnU-Net's `dataset.json`.

Labels and channels may also have the format of the Medical Segmentation Decathlon.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from mtf_imaging.data.description.description import ANY_RULES, BACKGROUND, LITS, LITS_RULES, Description
from mtf_imaging.data.intensities.schemes import parse_intensities
from mtf_imaging.data.listing.foreign_formats import how_to_convert
from mtf_imaging.data.listing.image_formats import ENDINGS
from mtf_imaging.data.listing.names import is_text, printable
from mtf_imaging.errors import DataError
from mtf_imaging.spelling import did_you_mean

BACKGROUND_NAME, IGNORE_NAME = "background", "ignore"
HIGHEST_LABEL = 255  # labels are stored as uint8
_MOST_DIGITS = 9  # Python refuses to convert thousands of digits
_LESION_NAMES = {"lesion", "tumor", "tumour", "cancer"}

Values = tuple[int, ...]


def as_fields(description: Description) -> dict[str, Any]:
    """Returns a description as fields of nnU-Net's `dataset.json`, which `from_fields` reads."""
    d = description
    numbered = {str(number): name for number, name in enumerate(d.channels)}
    labels: dict[str, Any] = {BACKGROUND_NAME: BACKGROUND}
    if d.has_regions:
        labels |= {name: values[0] if len(values) == 1 else list(values) for name, values in d.masks.items()}
    else:
        labels |= d.labels
    if d.ignore is not None:
        labels[IGNORE_NAME] = d.ignore
    fields: dict[str, Any] = {"channel_names": numbered, "labels": labels, "file_ending": d.file_ending}
    if d.region_order is not None:
        fields["regions_class_order"] = list(d.region_order)
        if d.labels != _names_of_labels(d.masks):
            fields["label_names"] = dict(d.labels)
    elif d.rules != LITS_RULES and d.masks != _single(d.labels):
        fields["masks"] = {name: list(values) for name, values in d.masks.items()}
    if d.lesions:
        fields["lesions"] = list(d.lesions)
    fields["intensities"] = [str(intensity) for intensity in d.intensities]
    if d.rules != LITS_RULES and _is_lits(d):
        fields["rules"] = ANY_RULES
    return fields


def from_fields(fields: Mapping[str, Any], where: str = "dataset.json") -> Description:
    """Returns the description in the fields of a `dataset.json`.

    Args:
      fields: the fields, in the format of nnU-Net v2 or the Medical Segmentation Decathlon; others are ignored.
      where: the path of the file, for messages.

    Returns:
      The description. `LITS`, possibly with a different file ending and window, if the only channel is a CT, the labels
      are liver and its lesions, and there are no other `masks` or `rules`.

    Raises:
      DataError: a field is missing or malformed.
    """
    channels = _channels(fields, where)
    values = _label_values(fields, where)
    ignore = _take_ignore(values, where)
    _check_values(values, ignore, where)
    region_order = _region_order(fields, values, where)
    if region_order is not None:
        masks = {name: value if isinstance(value, tuple) else (value,) for name, value in values.items()}
        _check_painting(masks, region_order, where)
        labels = _label_names(fields, masks, where)
    else:
        labels = {name: value for value, name in sorted((value, name) for name, value in values.items())}
        masks = _masks(fields, labels, where)
    texts = _strings(fields, "intensities", where)
    description = Description(
        channels=channels,
        labels=labels,
        masks=masks,
        region_order=region_order,
        ignore=ignore,
        lesions=tuple(_strings(fields, "lesions", where) or ()),
        file_ending=_file_ending(fields, where),
        intensities=() if texts is None else parse_intensities(texts, channels, f"{where}: intensities"),
    )
    description.check_lesions(where)
    return _with_rules(description, fields.get("rules"), where)


def _with_rules(description: Description, rules: Any, where: str) -> Description:
    if rules not in (None, ANY_RULES, LITS_RULES):
        raise DataError(f"{where}: rules is {rules!r}. Fix: use '{LITS_RULES}' or '{ANY_RULES}', or omit it.")
    if rules == ANY_RULES:
        return description
    if _is_lits(description):
        return dataclasses.replace(LITS, file_ending=description.file_ending, intensities=description.intensities)
    if rules == LITS_RULES:
        raise DataError(
            f"{where}: rules is '{LITS_RULES}', but the labels are {_listed(description.labels)} and the channels are "
            f"{', '.join(description.channels)}. Fix: use the labels liver = 1 and lesion = 2 of one CT, or omit rules."
        )
    return description


def _is_lits(d: Description) -> bool:
    """Returns whether the channel, labels and masks match LiTS, with any name for lesions."""
    if [name.casefold() for name in d.channels] != ["ct"] or d.has_regions or d.ignore is not None:
        return False
    names = [name.casefold() for name in d.labels]
    if list(d.labels.values()) != [1, 2] or names[0] != "liver" or names[1] not in _LESION_NAMES:
        return False
    lesion = list(d.labels)[1]
    return d.masks == _single(d.labels) and d.lesions in ((), (lesion,))


def _channels(fields: Mapping, where: str) -> tuple[str, ...]:
    key = "channel_names" if "channel_names" in fields else "modality"
    names = fields.get(key)
    if not isinstance(names, dict) or not names:
        what = (
            f"{key} is {names!r}" if key in fields else "has neither channel_names (nnU-Net) nor modality (Decathlon)"
        )
        raise DataError(f'{where}: {what}. Fix: name every channel, for instance "channel_names": {{"0": "CT"}}.')
    if [*sorted(names, key=lambda number: (len(number), number))] != [str(number) for number in range(len(names))]:
        raise DataError(
            f"{where}: the channels of {key} have the numbers {', '.join(names)}. "
            f"Fix: number them {', '.join(map(str, range(len(names))))}."
        )
    for number, name in names.items():
        if not isinstance(name, str) or not name.strip() or not is_text(name):
            raise DataError(
                f"{where}: the modality of channel {number} in {key} is {name!r}, which is not a name. "
                'Fix: name it, for instance "CT" or "T1w".'
            )
    return tuple(names[str(number)].strip() for number in range(len(names)))


def _label_values(fields: Mapping, where: str) -> dict[str, int | Values]:
    """Returns the values of all labels or regions except the background, in file order."""
    listed = fields.get("labels")
    if not isinstance(listed, dict) or not listed:
        what = f"labels is {listed!r}" if "labels" in fields else "has no labels"
        raise DataError(f'{where}: {what}. Fix: add, for instance, "labels": {{"background": 0, "liver": 1}}.')
    if all(isinstance(name, str) for name in listed.values()):
        listed = _inverted(listed, where)
    values = {name: _value(name, value, where) for name, value in listed.items()}
    backgrounds = [name for name in values if name.casefold() == BACKGROUND_NAME]
    for name in backgrounds:
        if values[name] != BACKGROUND:
            raise DataError(
                f"{where}: the label '{name}' is {_shown(values[name])}, not {BACKGROUND}. "
                f"Fix: give the background the value {BACKGROUND}."
            )
    for name, value in values.items():
        if name not in backgrounds and BACKGROUND in (value if isinstance(value, tuple) else (value,)):
            raise DataError(
                f"{where}: the label '{name}' is {_shown(value)}, but {BACKGROUND} is the background. "
                f"Fix: use other values for this label, or name it '{BACKGROUND_NAME}'."
            )
    return {name: value for name, value in values.items() if name not in backgrounds}


def _inverted(listed: Mapping[str, str], where: str) -> dict[str, int]:
    """Converts Decathlon labels, {"1": "liver"}, to nnU-Net labels, {"liver": 1}."""
    inverted: dict[str, int] = {}
    for number, name in listed.items():
        if number.isdecimal() and len(number) > _MOST_DIGITS:
            raise DataError(
                f"{where}: labels has the entry {number[:_MOST_DIGITS]}...: {name!r}, which is not a number below "
                f"{HIGHEST_LABEL + 1}. Fix: use the values 1 to {HIGHEST_LABEL}."
            )
        if not number.isdecimal():
            raise DataError(
                f"{where}: labels has the entry {number!r}: {name!r}, where neither is a number. "
                'Fix: write labels as in nnU-Net, {"liver": 1}, or as in the Decathlon, {"1": "liver"}.'
            )
        if name in inverted:
            raise DataError(
                f"{where}: the labels {inverted[name]} and {number} are both named '{name}'. Fix: rename one of them."
            )
        inverted[name] = int(number)
    return inverted


def _value(name: str, value: Any, where: str) -> int | Values:
    if not name.strip():
        raise DataError(f"{where}: the label of value {value!r} has no name. Fix: name it.")
    if not is_text(name):
        raise DataError(f"{where}: the label '{printable(name)}' has control characters in its name. Fix: rename it.")
    several = isinstance(value, list)
    for single in value if several else [value]:
        if not isinstance(single, int) or isinstance(single, bool) or single < 0:
            raise DataError(
                f"{where}: the label '{name}' is {value!r}. Fix: use a whole number, or a list of them for a region."
            )
        if single > HIGHEST_LABEL:
            raise DataError(
                f"{where}: the label '{name}' is {single}, above the highest value, {HIGHEST_LABEL}. "
                f"Fix: use the values 1 to {HIGHEST_LABEL}."
            )
    if several and (not value or len({*value}) < len(value)):
        what = "names no label" if not value else f"names a label twice ({_shown(tuple(value))})"
        raise DataError(f"{where}: the region '{name}' {what}. Fix: list each of its labels once.")
    if several and len(value) > 1:
        return tuple(sorted(value))
    return value[0] if several else value


def _take_ignore(values: dict[str, int | Values], where: str) -> int | None:
    """Removes the ignore label from `values` and returns its value."""
    ignore = values.pop(IGNORE_NAME, None)
    if isinstance(ignore, tuple):
        raise DataError(f"{where}: the label '{IGNORE_NAME}' is {_shown(ignore)}. Fix: use one whole number.")
    highest = max(_flat(values), default=0)
    if ignore is not None and ignore <= highest:
        raise DataError(
            f"{where}: the label '{IGNORE_NAME}' is {ignore}, but the highest other label is {highest}. "
            f"Fix: give it the value {highest + 1}, here and in the segmentations."
        )
    return ignore


def _check_values(values: Mapping[str, int | Values], ignore: int | None, where: str) -> None:
    if not values:
        raise DataError(f"{where}: labels has no label but the background. Fix: add the labels of the structures.")
    by_value: dict[int | Values, str] = {}
    for name, value in values.items():
        if value in by_value:
            raise DataError(
                f"{where}: the labels '{by_value[value]}' and '{name}' are both {_shown(value)}. "
                "Fix: remove one of them."
            )
        by_value[value] = name
    present = sorted({*_flat(values)} | ({ignore} if ignore is not None else set()))
    if present != [*range(1, len(present) + 1)]:
        raise DataError(
            f"{where}: the labels have the values {', '.join(map(str, present))}, which are not consecutive. "
            f"Fix: use 1 to {len(present)}, here and in the segmentations."
        )


def _region_order(fields: Mapping, values: Mapping[str, int | Values], where: str) -> Values | None:
    """Returns the label of each region, or None if the labels are mutually exclusive."""
    order = fields.get("regions_class_order")
    region = next((name for name, value in values.items() if isinstance(value, tuple)), None)
    if order is None and region is None:
        return None
    if "masks" in fields:
        raise DataError(
            f"{where}: masks cannot be combined with regions_class_order or with regions in labels. Fix: keep the "
            "regions in labels, or list single labels there and the regions in masks."
        )
    if order is None:
        raise DataError(
            f"{where}: the region '{region}' has several labels, but there is no regions_class_order. "
            "Fix: add regions_class_order, which lists the label to write for each region."
        )
    is_list = isinstance(order, list) and all(isinstance(value, int) and not isinstance(value, bool) for value in order)
    if not is_list or len(order) != len(values):
        raise DataError(
            f"{where}: regions_class_order is {order!r}, but there are {len(values)} regions ({', '.join(values)}). "
            "Fix: list one label per region, in the order of the regions."
        )
    return tuple(order)


def _check_painting(masks: Mapping[str, Values], order: Values, where: str) -> None:
    """Checks that each region is visible after all regions have been painted over each other."""
    names = list(masks)
    for number, (name, value) in enumerate(zip(names, order, strict=True)):
        if value not in masks[name]:
            raise DataError(
                f"{where}: regions_class_order has the label {value} for the region '{name}', whose labels are "
                f"{_shown(masks[name])}. Fix: choose one of these labels."
            )
        for later in names[number + 1 :]:
            if {*masks[name]} <= {*masks[later]}:
                raise DataError(
                    f"{where}: the region '{later}' ({_shown(masks[later])}) hides '{name}' ({_shown(masks[name])}), "
                    "because later regions are painted over earlier ones. Fix: list the larger region first, in labels "
                    "and in regions_class_order."
                )


def _label_names(fields: Mapping, masks: Mapping[str, Values], where: str) -> dict[str, int]:
    """Returns the names of the individual labels of regions, in ascending order of their values."""
    names = _names_of_labels(masks)
    given = fields.get("label_names")
    if given is None:
        return names
    if not isinstance(given, dict) or sorted(map(repr, given.values())) != sorted(map(repr, names.values())):
        raise DataError(
            f"{where}: label_names is {given!r}, but the regions have the labels {_shown(tuple(names.values()))}. "
            "Fix: name each label once, or omit label_names."
        )
    return dict(sorted(given.items(), key=lambda item: item[1]))


def _names_of_labels(masks: Mapping[str, Values]) -> dict[str, int]:
    own = {values[0]: name for name, values in masks.items() if len(values) == 1}
    return {own.get(value, f"label {value}"): value for value in sorted({*_flat(masks)})}


def _masks(fields: Mapping, labels: Mapping[str, int], where: str) -> dict[str, Values]:
    """Returns the scored masks for mutually exclusive labels."""
    given = fields.get("masks")
    if given is None:
        return _single(labels)
    if not isinstance(given, dict) or not given:
        raise DataError(f'{where}: masks is {given!r}. Fix: use, for instance, {{"prostate": [1, 2]}}, or omit it.')
    masks = {}
    for name, value in given.items():
        value = _value(name, value, where)
        masks[name] = value if isinstance(value, tuple) else (value,)
        unknown = {*masks[name]} - {*labels.values()}
        if unknown:
            raise DataError(
                f"{where}: the mask '{name}' has the value {min(unknown)}, but the labels are {_listed(labels)}. "
                "Fix: use the values of labels."
            )
    return masks


def _strings(fields: Mapping, key: str, where: str) -> list[str] | None:
    texts = fields.get(key)
    if texts is not None and not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
        raise DataError(f"{where}: {key} is {texts!r}. Fix: use a list of strings, or omit it.")
    return texts


def _file_ending(fields: Mapping, where: str) -> str:
    ending = fields.get("file_ending", LITS.file_ending)
    if isinstance(ending, str) and ending.lower() in ENDINGS:
        return ending.lower()
    if ending not in ENDINGS:
        how = how_to_convert([ending]) if isinstance(ending, str) else ""
        hint = did_you_mean(ending, ENDINGS) if isinstance(ending, str) and not how else ""
        raise DataError(
            f"{where}: file_ending is {ending!r}, which this program cannot read.{hint} "
            f"Fix: convert the images to one of {', '.join(ENDINGS)}{f'; {how}' if how else ''}."
        )
    return ending


def _single(labels: Mapping[str, int]) -> dict[str, Values]:
    return {name: (value,) for name, value in labels.items()}


def _flat(values: Mapping[str, int | Values]) -> list[int]:
    return [single for value in values.values() for single in (value if isinstance(value, tuple) else (value,))]


def _listed(labels: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in labels.items())


def _shown(value: int | Values) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
