"""DICOM label codes: the structure of each label as a term of SNOMED CT or another terminology."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.errors import ConfigError
from mtf_imaging.files.reading import Fault, faults_named
from mtf_imaging.files.text_file import read_text

_KEYS = ("category", "type", "region")
_EXAMPLE = (
    '{"spleen": {"category": ["SCT", "91723000", "Anatomical Structure"], "type": ["SCT", "78961009", "Spleen"]}}'
)
_MOST_CHARACTERS = (16, 16, 64)  # of scheme, value and meaning: the limits of the DICOM types SH and LO
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
        what = f"the label(s) {', '.join(missing)} have no codes of a terminology"
        fix = f"write their codes to a JSON file, for instance {_EXAMPLE}, and name it in label_codes"
        raise ConfigError(f"output_format 'dicom-seg': {what}. Fix: {fix}.", ["output_format", _SETTING])
    return {name: known[name] for name in labels}


def segment_name(label: str) -> str:
    """Returns the name of a label's segment, which DICOM limits to 64 characters without a backslash.

    >>> segment_name("left\\\\right"), len(segment_name("a" * 70))
    ('left/right', 64)
    """
    return label.replace("\\", "/")[: _MOST_CHARACTERS[2]]


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
    names, fix = [*labels], f"write, for instance, {_EXAMPLE}"
    with faults_named(path, fix):
        try:
            entries = json.loads(read_text(path))
        except (ValueError, RecursionError) as error:
            raise Fault(f"is not JSON ({error})", settings=[_SETTING]) from error
        if not isinstance(entries, dict) or not {*entries} <= {*names}:
            shown = ", ".join(map(str, entries)) if isinstance(entries, dict) else "no object of labels"
            raise Fault(f"has {shown}, but the labels are {', '.join(names)}", settings=[_SETTING])
        return {name: _label_codes(name, entry) for name, entry in entries.items()}


def _label_codes(name: str, entry: object) -> LabelCodes:
    keys = {*entry} if isinstance(entry, dict) else set()
    codes = [*entry.values()] if isinstance(entry, dict) else []
    if not {*_KEYS[:2]} <= keys <= {*_KEYS} or not all(map(_is_code, codes)):
        what = "but needs category and type, and may have region, each a scheme, a value and a meaning of at most"
        most = f"{', '.join(map(str, _MOST_CHARACTERS))} characters without a backslash"
        raise Fault(f"the label '{name}' is {json.dumps(entry)}, {what} {most}", settings=[_SETTING])
    return LabelCodes(**{key: Code(*value) for key, value in entry.items()})


def _is_code(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(Code._fields)
        and all(isinstance(text, str) and text.strip() and "\\" not in text for text in value)
        and all(len(text) <= most for text, most in zip(value, _MOST_CHARACTERS, strict=True))
    )
