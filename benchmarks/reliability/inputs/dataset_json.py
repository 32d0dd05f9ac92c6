"""Descriptions of data sets that are malformed, incomplete or in conflict with the files."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.reliability.good import write_described
from benchmarks.reliability.inputs import checks
from benchmarks.reliability.inputs.bad_input import BadInput, Outcome, Refused, Right, Warned
from benchmarks.reliability.inputs.lines import CONVERT, PLAN, on

GOOD: dict[str, Any] = {
    "channel_names": {"0": "MR0"},
    "labels": {"background": 0, "spleen": 1, "cyst": 2},
    "numTraining": 2,
    "file_ending": ".nii.gz",
}
_REFUSED = Refused("dataset.json")
_TWO = Right(checks.num_cases(2))


def _written(content: str | bytes) -> Callable[[Path, Path], None]:
    def make(good: Path, here: Path) -> None:
        write_described(here / "nnunet")
        path = here / "nnunet/dataset.json"
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return make


def _changed(**fields: Any) -> Callable[[Path, Path], None]:
    return _written(json.dumps({key: value for key, value in (GOOD | fields).items() if value is not None}))


def _labels(labels: Mapping[str, object]) -> Callable[[Path, Path], None]:
    return _changed(labels=labels)


_TEXT = json.dumps(GOOD)
_TEXTS: dict[str, tuple[str | bytes, tuple[Outcome, ...]]] = {
    "empty": ("", (_REFUSED,)),
    "truncated": (_TEXT[:40], (_REFUSED,)),
    "not JSON": ("labels: background", (_REFUSED,)),
    "a list": ("[1, 2]", (_REFUSED,)),
    "a number": ("1", (_REFUSED,)),
    "null": ("null", (_REFUSED,)),
    "nested 100,000 deep": ("[" * 100_000 + "]" * 100_000, (_REFUSED,)),
    "objects nested 100,000 deep": ('{"a":' * 100_000 + "1" + "}" * 100_000, (_REFUSED,)),
    "a number of 10,000 digits": (_TEXT.replace('"numTraining": 2', '"numTraining": ' + "9" * 10_000), (_REFUSED,)),
    "a byte order mark": (b"\xef\xbb\xbf" + _TEXT.encode(), (_TWO, _REFUSED)),
    "UTF-16": (_TEXT.encode("utf-16"), (_TWO, _REFUSED)),
    "letters that are not UTF-8": (_TEXT.replace("spleen", "Mülz").encode("latin-1"), (_REFUSED,)),
    "comments": ("// labels\n" + _TEXT, (_REFUSED,)),
    "NaN": (_TEXT.replace('"numTraining": 2', '"numTraining": NaN'), (_REFUSED,)),
    "a label twice": (_TEXT.replace('"cyst": 2', '"spleen": 2'), (_REFUSED,)),
    "a field twice": (_TEXT[:-1] + ', "labels": {"background": 0, "kidney": 1}}', (_REFUSED,)),
}
_FIELDS: dict[str, tuple[dict[str, Any], tuple[Outcome, ...]]] = {
    "no labels": ({"labels": None}, (_REFUSED,)),
    "no channels": ({"channel_names": None}, (_REFUSED,)),
    "empty labels": ({"labels": {}}, (_REFUSED,)),
    "labels as a list": ({"labels": ["background", "spleen"]}, (_REFUSED,)),
    "labels as text": ({"labels": "spleen"}, (_REFUSED,)),
    "a label of 1.5": ({"labels": {"background": 0, "spleen": 1.5}}, (_REFUSED,)),
    "a negative label": ({"labels": {"background": 0, "spleen": -1}}, (_REFUSED,)),
    "a label of 1e9": ({"labels": {"background": 0, "spleen": 1, "cyst": 10**9}}, (_REFUSED,)),
    "true as a label": ({"labels": {"background": 0, "spleen": True, "cyst": 2}}, (_REFUSED,)),
    "a gap in the labels": ({"labels": {"background": 0, "spleen": 1, "cyst": 3}}, (_REFUSED,)),
    "two labels of one value": ({"labels": {"background": 0, "spleen": 1, "cyst": 1}}, (_REFUSED,)),
    "no background": ({"labels": {"spleen": 1, "cyst": 2}}, (_REFUSED, _TWO)),
    "regions without their order": ({"labels": {"background": 0, "all": [1, 2], "cyst": 2}}, (_REFUSED,)),
    "the order of regions is text": (
        {"labels": {"background": 0, "all": [1, 2], "cyst": 2}, "regions_class_order": "1,2"},
        (_REFUSED,),
    ),
    "a region of nothing": ({"labels": {"background": 0, "all": []}, "regions_class_order": [1]}, (_REFUSED,)),
    "ignore is not the highest": ({"labels": {"background": 0, "ignore": 1, "cyst": 2}}, (_REFUSED,)),
    "channels as a number": ({"channel_names": 1}, (_REFUSED,)),
    "channels from 1": ({"channel_names": {"1": "MR0"}}, (_REFUSED,)),
    "a channel that is a number": ({"channel_names": {"0": 7}}, (_REFUSED,)),
    "more channels than files": (
        {"channel_names": {"0": "MR0", "1": "MR1"}},
        (Refused("a0_0000.nii.gz"), Refused("dataset.json")),
    ),
    "no channel": ({"channel_names": {}}, (_REFUSED,)),
    "the ending .mgz": ({"file_ending": ".mgz"}, (_TWO,)),
    "the ending .mnc": ({"file_ending": ".mnc"}, (Refused("dataset.json", "mnc"),)),
    "an ending that no file has": ({"file_ending": ".png"}, (Refused("nnunet"),)),
    "an ending that is a number": ({"file_ending": 5}, (_REFUSED,)),
    "another number of cases": ({"numTraining": 7}, (Warned("7"), _REFUSED)),
    "a number of cases that is text": ({"numTraining": "two"}, (_REFUSED, Warned("numTraining"))),
    "unknown intensities": ({"intensities": ["sharpen"]}, (_REFUSED,)),
    "intensities of two channels": ({"intensities": ["none", "none"]}, (_REFUSED,)),
    "lesions that no label has": ({"lesions": ["tumor"]}, (_REFUSED,)),
    "masks of labels that do not exist": ({"masks": {"all": [1, 9]}}, (_REFUSED,)),
    "unknown rules": ({"rules": "best"}, (_REFUSED,)),
    "nnU-Net's field dataset": (
        {
            "dataset": {
                "a0": {"images": ["imagesTr/a0_0000.nii.gz"], "label": "labelsTr/a0.nii.gz"},
                "a1": {"images": ["imagesTr/a1_0000.nii.gz"], "label": "labelsTr/a1.nii.gz"},
            }
        },
        (_TWO, Warned("'dataset'"), Refused("dataset.json", "dataset")),
    ),
    "nnU-Net's field dataset, with files of another folder": (
        {"dataset": {"x": {"images": ["../elsewhere/x.nii.gz"], "label": "../elsewhere/y.nii.gz"}}},
        (_REFUSED,),
    ),
}
INPUTS = [
    BadInput("dataset.json", name, line, _written(content), outcomes)
    for name, (content, outcomes) in _TEXTS.items()
    for line in (on(CONVERT, "nnunet"),)
]
INPUTS += [
    BadInput("dataset.json", name, line, _changed(**fields), outcomes)
    for name, (fields, outcomes) in _FIELDS.items()
    for line in (on(CONVERT, "nnunet"),)
]
INPUTS += [
    BadInput("dataset.json", name, on(PLAN, "nnunet"), _written(_TEXTS[name][0]), (_REFUSED,))
    for name in ("empty", "nested 100,000 deep", "a label twice", "not JSON")
]
