"""DICOM label codes: the structure of each label as a term of SNOMED CT or another terminology."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.text_file import read_text

_KEYS = ("category", "type", "region")
_EXAMPLE = (
    '{"spleen": {"category": ["SCT", "91723000", "Anatomical Structure"], "type": ["SCT", "78961009", "Spleen"]}}'
)
_MOST_CHARACTERS = {"scheme": 16, "value": 16, "meaning": 64}  # the limits of the DICOM types SH and LO
_SETTING = "label_codes"


class Code(NamedTuple):
    """A term of a terminology.

    Attributes:
      scheme: the terminology, such as SCT for SNOMED CT.
      value: the number or name of the term.
      meaning: the term in words.
    """

    scheme: str
    value: str
    meaning: str


@dataclasses.dataclass(frozen=True)
class LabelCodes:
    """The codes of a label.

    Attributes:
      category: the kind of property that the label stands for, such as an anatomical structure.
      type: the structure.
      region: the part of the body that contains the structure; None if the type states it.
    """

    category: Code
    type: Code
    region: Code | None = None

    @property
    def meanings(self) -> tuple[str, ...]:
        """The meaning of each code."""
        return tuple(code.meaning for code in (self.category, self.type, self.region) if code is not None)


_ANATOMY = Code("SCT", "91723000", "Anatomical Structure")
_ABNORMAL = Code("SCT", "49755003", "Morphologically Abnormal Structure")
_LIVER = Code("SCT", "10200004", "Liver")
_NEOPLASM = Code("SCT", "108369006", "Neoplasm")
_LIVER_LABEL = LabelCodes(_ANATOMY, _LIVER)
_LESION_LABEL = LabelCodes(_ABNORMAL, _NEOPLASM, _LIVER)

# The codes of the LiTS labels; the lesions are liver tumors (CID 7150, 7159 and 7166 of DICOM PS3.16).
_LIVER_NAME = "liver"
_DEFAULTS = {_LIVER_NAME: _LIVER_LABEL, **dict.fromkeys(("lesion", "tumor", "tumour", "cancer"), _LESION_LABEL)}


def codes_of_labels(labels: Mapping[str, int], stated: Mapping[str, LabelCodes] | None) -> dict[str, LabelCodes]:
    """Returns the codes of each label, in the order of the labels.

    Args:
      labels: {name: value} of the labels. A liver and its lesions need no stated codes.
      stated: the codes from the user; see `read_label_codes`.

    Raises:
      ConfigError: a label has no codes.
    """
    known = {**default_codes(labels), **(stated or {})}
    missing = [name for name in labels if name not in known]
    if missing:
        raise ConfigError(
            f"output_format 'dicom-seg': the label(s) {', '.join(missing)} have no codes of a terminology. "
            f"Fix: write their codes to a JSON file, for instance {_EXAMPLE}, and name it in label_codes.",
            ["output_format", _SETTING],
        )
    return {name: known[name] for name in labels}


def segment_name(label: str) -> str:
    """Returns the name of a label's segment, which DICOM limits to 64 characters without a backslash.

    >>> segment_name("left\\\\right"), len(segment_name("a" * 70))
    ('left/right', 64)
    """
    return label.replace("\\", "/")[: _MOST_CHARACTERS["meaning"]]


def default_codes(labels: Iterable[str]) -> dict[str, LabelCodes]:
    """Returns the codes of a liver and its lesions among label names; {} if there is no liver.

    >>> default_codes(("Liver", "vessel", "tumor"))["tumor"].type.meaning
    'Neoplasm'
    """
    names = [*labels]
    if not any(name.casefold() == _LIVER_NAME for name in names):
        return {}
    return {name: _DEFAULTS[name.casefold()] for name in names if name.casefold() in _DEFAULTS}


def read_label_codes(path: str | Path, labels: Iterable[str]) -> dict[str, LabelCodes]:
    """Reads label codes from a JSON file.

    The file is an object with an entry for each label. An entry has `category`, `type` and, optionally, `region`, each
    a list of the scheme, the value and the meaning of a code.

    Args:
      path: the file.
      labels: the names of all labels.

    Raises:
      DataError: the file is missing or malformed, or names an unknown label.
    """
    try:
        entries = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON ({error}). Fix: write, for instance, {_EXAMPLE}.", [_SETTING]) from error
    if not isinstance(entries, dict):
        raise DataError(f"{path}: is not an object of labels. Fix: write, for instance, {_EXAMPLE}.", [_SETTING])
    names = [*labels]
    unknown = [name for name in entries if name not in names]
    if unknown:
        raise DataError(
            f"{path}: names the label(s) {', '.join(unknown)}, but the labels are {', '.join(names)}. "
            "Fix: use the names of the labels.",
            [_SETTING],
        )
    return {name: _label_codes(f"{path}: the label '{name}'", entry) for name, entry in entries.items()}


def _label_codes(where: str, entry: Any) -> LabelCodes:
    keys = [*entry] if isinstance(entry, dict) else []
    if any(key not in _KEYS for key in keys) or any(key not in keys for key in _KEYS[:2]):
        raise DataError(
            f"{where} has {', '.join(map(str, keys)) or 'no keys'}, but needs category and type, and may have region. "
            f"Fix: write, for instance, {_EXAMPLE}.",
            [_SETTING],
        )
    return LabelCodes(**{key: _code(f"{where}: {key}", value) for key, value in entry.items()})


def _code(where: str, value: Any) -> Code:
    is_code = isinstance(value, list) and len(value) == len(Code._fields)
    if not is_code or not all(isinstance(text, str) and text.strip() for text in value):
        raise DataError(
            f'{where} is {value!r}, not a code. Fix: list its scheme, value and meaning, for instance ["SCT", '
            '"10200004", "Liver"].',
            [_SETTING],
        )
    for name, text in zip(Code._fields, value, strict=True):
        if len(text) > _MOST_CHARACTERS[name] or "\\" in text:
            raise DataError(
                f"{where}: the {name} is {text!r}. Fix: use at most {_MOST_CHARACTERS[name]} characters and no "
                "backslash, as DICOM requires.",
                [_SETTING],
            )
    return Code(*value)
