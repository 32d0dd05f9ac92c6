"""Converts data set descriptions to JSON fields and back, in the format of nnU-Net's `dataset.json`.

Labels and channels may also have the format of the Medical Segmentation Decathlon.
"""

import dataclasses
import reprlib
from collections.abc import Mapping
from typing import Any

from mtf_imaging.data.description.description import ANY_RULES, BACKGROUND, LITS, LITS_RULES, Description
from mtf_imaging.data.intensities.schemes import parse_intensities
from mtf_imaging.data.listing.foreign_formats import how_to_convert
from mtf_imaging.data.listing.image_formats import ENDINGS
from mtf_imaging.data.listing.names import is_text, printable
from mtf_imaging.files.reading import Fault, faults_named
from mtf_imaging.spelling import did_you_mean

BACKGROUND_NAME, IGNORE_NAME = "background", "ignore"
HIGHEST_LABEL = 255  # labels are stored as uint8
CROP = "crop_to_nonzero"
_HIGHEST_VALUE = 65_535  # in files of segmentations
_WITH_VALUES = ("labels", "regions_class_order", "label_names", "masks")  # the fields that state values of labels
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
    if d.crops_to_nonzero:
        fields[CROP] = True
    fields["intensities"] = [str(intensity) for intensity in d.intensities]
    if d.rules != LITS_RULES and _is_lits(d):
        fields["rules"] = ANY_RULES
    return _renumbered(fields, d.stored)


def _renumbered(fields: Mapping[str, Any], numbers: Mapping[int, int]) -> dict[str, Any]:
    """Returns the fields with other values of labels; a value without a number becomes 0. {} changes nothing."""

    def number(value: object) -> object:
        if isinstance(value, dict):
            return {name: number(one) for name, one in value.items()}
        if isinstance(value, list):
            return [number(one) for one in value]
        return numbers.get(value, BACKGROUND) if type(value) is int else value

    return {name: number(value) if numbers and name in _WITH_VALUES else value for name, value in fields.items()}


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
    with faults_named(where):
        channels = _channels(fields)
        values, ignore, stored = _label_values(fields)
        fields = _renumbered(fields, {value: label for label, value in stored.items()})
        region_order = _region_order(fields, values)
        if region_order is None:
            labels = {name: value for (value,), name in sorted((value, name) for name, value in values.items())}
            masks = _masks(fields, labels)
        else:
            labels, masks = _label_names(fields, values), values
        texts = _strings(fields, "intensities")
        description = Description(
            channels=channels,
            labels=labels,
            masks=masks,
            region_order=region_order,
            ignore=ignore,
            lesions=tuple(_strings(fields, "lesions") or ()),
            file_ending=_file_ending(fields),
            intensities=() if texts is None else parse_intensities(texts, channels, f"{where}: intensities"),
            stored=stored,
            crops_to_nonzero=fields.get(CROP) is True,
        )
        description.check_lesions(where)
        return _with_rules(description, fields.get("rules"))


def _with_rules(description: Description, rules: object) -> Description:
    is_lits = _is_lits(description)
    if rules not in (None, ANY_RULES, LITS_RULES) or (rules == LITS_RULES and not is_lits):
        of = f"the labels are {_listed(description.labels)} and the channels are {', '.join(description.channels)}"
        fix = f"use the labels liver = 1 and lesion = 2 of one CT for '{LITS_RULES}', or '{ANY_RULES}', or omit it"
        raise Fault(f"rules is {rules!r}, but {of}", fix)
    if is_lits and rules != ANY_RULES:
        kept = ("file_ending", "intensities", "stored", "crops_to_nonzero")
        return dataclasses.replace(LITS, **{name: getattr(description, name) for name in kept})
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


def _channels(fields: Mapping) -> tuple[str, ...]:
    key = "channel_names" if "channel_names" in fields else "modality"
    names = fields.get(key)
    numbers = [str(number) for number in range(len(names))] if isinstance(names, dict) else []
    if not numbers or {*names} != {*numbers} or not all(map(_is_name, names.values())):
        what = f"its channels, {key} of nnU-Net or the Decathlon, are {names!r}"
        raise Fault(what, 'number them from 0, and name each, for instance {"0": "CT", "1": "T1w"}')
    return tuple(names[number].strip() for number in numbers)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(name.strip()) and is_text(name)


def _label_values(fields: Mapping) -> tuple[dict[str, Values], int | None, dict[int, int]]:
    """Returns the labels of all names or regions except the background, in file order, the ignore label, and
    `Description.stored`; the labels of values with gaps are 1, 2, ...
    """
    listed = fields.get("labels")
    if not isinstance(listed, dict) or not listed:
        raise Fault(f"labels is {listed!r}", 'add, for instance, "labels": {"background": 0, "liver": 1}')
    if all(isinstance(name, str) for name in listed.values()):
        listed = _inverted(listed)
    values = {name: _value(name, value) for name, value in listed.items()}
    for name, value in values.items():
        is_background = name.casefold() == BACKGROUND_NAME
        if is_background != (BACKGROUND in value) or (is_background and value != (BACKGROUND,)):
            what = f"the label '{name}' is {_shown(value)}, but {BACKGROUND} is the value of the background alone"
            raise Fault(what, f"use other values for this label, or name it '{BACKGROUND_NAME}'")
    ignore = values.pop(IGNORE_NAME, None)
    values = {name: value for name, value in values.items() if BACKGROUND not in value}
    present = sorted({*_flat(values), *(ignore or ())})
    is_last = ignore is None or ignore == (present[-1],)
    if not values or len(present) > HIGHEST_LABEL or not is_last or len({*values.values()}) < len(values):
        shown = ", ".join(f"{name} = {_shown(value)}" for name, value in values.items()) or "only the background"
        what = f"the labels are {shown}{'' if ignore is None else f' and {IGNORE_NAME} = {_shown(ignore)}'}"
        fix = f"give each of at most {HIGHEST_LABEL} labels a value, as in the segmentations"
        raise Fault(what, f"{fix}; the last one may be '{IGNORE_NAME}'")
    labels = {value: label for label, value in enumerate(present, 1)}
    stored = {label: value for value, label in labels.items()} if present[-1] > len(present) else {}
    values = {name: tuple(labels[value] for value in own) for name, own in values.items()}
    return values, None if ignore is None else labels[ignore[0]], stored


def _inverted(listed: Mapping[str, str]) -> dict[str, int]:
    """Converts Decathlon labels, {"1": "liver"}, to nnU-Net labels, {"liver": 1}."""
    is_numbered = all(number.isdecimal() and len(number) <= _MOST_DIGITS for number in listed)
    if not is_numbered or len({*listed.values()}) < len(listed):
        what = f"labels is {reprlib.repr(listed)}, where a number or a name is missing or occurs twice"
        raise Fault(what, 'write labels as in nnU-Net, {"liver": 1}, or as in the Decathlon, {"1": "liver"}')
    return {name: int(number) for number, name in listed.items()}


def _value(name: str, value: object) -> Values:
    numbers = value if isinstance(value, list) else [value]
    is_valid = bool(numbers) and all(type(one) is int and 0 <= one <= _HIGHEST_VALUE for one in numbers)
    if not _is_name(name) or not is_valid or len({*numbers}) < len(numbers):
        fix = f"give it a name without control characters and a whole number up to {_HIGHEST_VALUE}, or a list of them"
        raise Fault(f"the label '{printable(name)}' is {reprlib.repr(value)}", fix)
    return tuple(sorted(numbers))


def _region_order(fields: Mapping, values: Mapping[str, Values]) -> Values | None:
    """Returns the label of each region, or None if the labels are mutually exclusive."""
    order = fields.get("regions_class_order")
    if order is None and all(len(value) == 1 for value in values.values()):
        return None
    if "masks" in fields:
        fix = "keep the regions in labels, or list single labels there and the regions in masks"
        raise Fault("masks cannot be combined with regions_class_order or with regions in labels", fix)
    is_list = isinstance(order, list) and all(type(value) is int for value in order)
    if not is_list or len(order) != len(values) or any(at not in own for at, own in zip(order, values.values())):
        regions = ", ".join(f"{name} = {_shown(value)}" for name, value in values.items())
        fix = "list one label per region, which is painted for it, in the order of the regions"
        raise Fault(f"regions_class_order is {order!r}, but the regions are {regions}", fix)
    names = list(values)
    for number, name in enumerate(names):
        for later in names[number + 1 :]:
            if {*values[name]} <= {*values[later]}:
                what = f"the region '{later}' ({_shown(values[later])}) hides '{name}' ({_shown(values[name])})"
                fix = "list the larger region first, in labels and in regions_class_order"
                raise Fault(f"{what}, because later regions are painted over earlier ones", fix)
    return tuple(order)


def _label_names(fields: Mapping, masks: Mapping[str, Values]) -> dict[str, int]:
    """Returns the names of the individual labels of regions, in ascending order of their values."""
    names = _names_of_labels(masks)
    given = fields.get("label_names")
    if given is None:
        return names
    if not isinstance(given, dict) or sorted(map(repr, given.values())) != sorted(map(repr, names.values())):
        what = f"label_names is {given!r}, but the regions have the labels {_shown(tuple(names.values()))}"
        raise Fault(what, "name each label once, or omit label_names")
    return dict(sorted(given.items(), key=lambda item: item[1]))


def _names_of_labels(masks: Mapping[str, Values]) -> dict[str, int]:
    own = {values[0]: name for name, values in masks.items() if len(values) == 1}
    return {own.get(value, f"label {value}"): value for value in sorted({*_flat(masks)})}


def _masks(fields: Mapping, labels: Mapping[str, int]) -> dict[str, Values]:
    """Returns the scored masks for mutually exclusive labels."""
    given = fields.get("masks")
    if given is None:
        return _single(labels)
    masks = {name: _value(name, value) for name, value in given.items()} if isinstance(given, dict) else {}
    if not masks or not {*_flat(masks)} <= {*labels.values()}:
        what = f"masks is {given!r}, but the labels are {_listed(labels)}"
        raise Fault(what, 'use the values of labels, for instance {"prostate": [1, 2]}, or omit it')
    return masks


def _strings(fields: Mapping, key: str) -> list[str] | None:
    texts = fields.get(key)
    if texts is not None and not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
        raise Fault(f"{key} is {texts!r}", "use a list of strings, or omit it")
    return texts


def _file_ending(fields: Mapping) -> str:
    ending = fields.get("file_ending", LITS.file_ending)
    if not isinstance(ending, str) or ending.lower() not in ENDINGS:
        how = how_to_convert([str(ending)])
        hint = "" if how else did_you_mean(str(ending), ENDINGS)
        what = f"file_ending is {ending!r}, which this program cannot read.{hint}".removesuffix(".")
        raise Fault(what, f"convert the images to one of {', '.join(ENDINGS)}{f'; {how}' if how else ''}")
    return ending.lower()


def _single(labels: Mapping[str, int]) -> dict[str, Values]:
    return {name: (value,) for name, value in labels.items()}


def _flat(values: Mapping[str, Values]) -> list[int]:
    return [single for value in values.values() for single in value]


def _listed(labels: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in labels.items())


def _shown(value: Values) -> str:
    return ", ".join(map(str, value))
