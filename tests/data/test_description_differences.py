"""Descriptions whose labels or channels mean something else are told apart; harmless differences are not."""

import dataclasses

import pytest

from mtf_imaging.data.description.description import ANY_RULES, LITS, Description
from mtf_imaging.data.description.differences import differences, refuse_differences
from mtf_imaging.data.intensities.schemes import parse_intensity
from mtf_imaging.errors import DataError

ORGANS = Description(("CT",), {"spleen": 1, "cyst": 2}, {"spleen": (1,), "cyst": (2,)})
REGIONS = Description(("MR",), {"edema": 1, "core": 2}, {"whole": (1, 2), "core": (2,)}, region_order=(1, 2))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"channels": ("MR",)}, ("channels", "MR", "CT")),
        ({"channels": ("CT", "PET")}, ("channels", "CT, PET", "CT")),
        (
            {"labels": {"spleen": 2, "cyst": 1}, "masks": {"spleen": (2,), "cyst": (1,)}},
            ("labels", "1 cyst, 2 spleen", "1 spleen, 2 cyst"),
        ),
        ({"labels": {"spleen": 1}, "masks": {"spleen": (1,)}}, ("labels", "1 spleen", "1 spleen, 2 cyst")),
        (
            {"labels": {"spleen": 1, "cyst": 2, "stone": 3}},
            ("labels", "1 spleen, 2 cyst, 3 stone", "1 spleen, 2 cyst"),
        ),
        ({"masks": {"spleen": (1, 2), "cyst": (2,)}}, ("masks", "cyst = 2, spleen = 1+2", "cyst = 2, spleen = 1")),
        ({"ignore": 3}, ("ignore label", "3", "none")),
        ({"rules": "lits"}, ("rules", "lits", "any")),
    ],
)
def test_what_changes_the_meaning_of_a_label_differs(changes, expected):
    assert differences(dataclasses.replace(ORGANS, **changes), ORGANS) == [expected]


def test_the_label_that_a_region_is_painted_with_differs():
    other = dataclasses.replace(REGIONS, region_order=(2, 2))
    (one,) = differences(other, REGIONS)
    assert one == (
        "regions",
        "core = 2 painted as 2, whole = 1+2 painted as 2",
        "core = 2 painted as 2, whole = 1+2 painted as 1",
    )
    softmax = dataclasses.replace(REGIONS, region_order=None)
    assert differences(softmax, REGIONS)[0].own == "core = 2, whole = 1+2"


def test_harmless_differences_are_not_reported():
    harmless = {
        "file_ending": ".png",
        "lesions": ("cyst",),
        "intensities": (parse_intensity("z-score", "here"),),
        "labels": {"cyst": 2, "spleen": 1},
        "masks": {"cyst": (2,), "spleen": (1,)},
    }
    assert differences(dataclasses.replace(ORGANS, **harmless), ORGANS) == []
    assert differences(LITS, dataclasses.replace(LITS, rules=ANY_RULES)) != []


def test_all_differences_are_named_with_both_values():
    found = differences(dataclasses.replace(ORGANS, channels=("MR",), ignore=3), ORGANS)
    with pytest.raises(DataError) as info:
        refuse_differences("other: has", found, "the network is trained with", "give such data.", ["eval_dir"])
    assert str(info.value) == (
        "other: has the channels MR, but the network is trained with CT; the ignore label 3, but the network is "
        "trained with none. Fix: give such data."
    )
    assert info.value.settings == ("eval_dir",)
    refuse_differences("other: has", [], "the network is trained with", "give such data.")
