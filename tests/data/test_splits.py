"""Tests the folds of a cross-validation, their file format and their error messages."""

import json
import os

import pytest

from mtf_imaging.data.records.splits import Fold, Subset, check_cases, make_splits, pick_fold, read_splits, write_splits
from mtf_imaging.errors import DataError

KEYS = [f"liver_{number}" for number in range(13)]


@pytest.mark.parametrize("num_folds", [2, 5, 13])
def test_each_case_is_held_out_once(num_folds):
    splits = make_splits(KEYS, num_folds)
    assert sorted(key for fold in splits for key in fold.val) == sorted(KEYS)
    assert {len(fold.val) for fold in splits} <= {len(KEYS) // num_folds, -(-len(KEYS) // num_folds)}
    for fold in splits:
        assert [key for key in KEYS if key in fold.train] == list(fold.train)
        assert {*fold.train, *fold.val} == {*KEYS}
        assert not {*fold.train} & {*fold.val}


def test_folds_depend_on_seed_and_keys_alone():
    assert make_splits(KEYS, 5) == make_splits(KEYS, 5, seed=0)
    assert make_splits(KEYS, 5) != make_splits(KEYS, 5, seed=1)
    other_order = make_splits(KEYS[::-1], 5)
    assert [fold.digest for fold in other_order] == [fold.digest for fold in make_splits(KEYS, 5)]
    # Folds must never change, because existing runs depend on them.
    assert [len(fold.val) for fold in make_splits(KEYS, 5)] == [3, 3, 3, 2, 2]
    assert len({fold.digest for fold in other_order}) == 5


def test_the_file_is_nnunets(tmp_path):
    path, splits = tmp_path / "splits_final.json", make_splits(KEYS, 5)
    write_splits(path, splits)
    assert read_splits(path) == splits
    listed = json.loads(path.read_text())
    assert [sorted(split) for split in listed] == [["train", "val"]] * 5
    assert listed[0]["val"] == list(splits[0].val)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON file (Expecting property name"),
        ("3", 'not a list of {"train": [...], "val": [...]} with names of cases'),
        ('[{"train": ["1"]}]', "not a list of"),
        ('[{"train": "12", "val": ["3"]}]', "'12' is not a list of names"),
        ('[{"train": [1], "val": [2]}]', "[1] is not a list of names"),
        (
            '[{"train": ["1", "2"], "val": ["2"]}]',
            "fold 0 both holds out and trains on 2. Fix: keep each case in one list.",
        ),
        ('[{"train": ["1"], "val": []}]', "fold 0 has no case in 'val'. Fix: add one."),
    ],
)
def test_malformed_files_are_refused(text, message, tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_splits(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_mismatches_are_named():
    fold = Fold(("1", "2"), ("3", "x"))
    with pytest.raises(DataError) as error:
        check_cases(fold, ["1", "2", "3", "4", "5"], "s.json", "records")
    assert str(error.value) == (
        "s.json: the fold names cases that are not in records (x) and lacks cases of records (4, 5). "
        "Fix: use a splits_file of exactly these cases."
    )
    assert error.value.settings == ("splits_file",)
    check_cases(fold, ["x", "1", "2", "3"], "s.json", "records")
    with pytest.raises(DataError, match=r"s.json: fold 2 does not exist; there are 2 folds\. Fix: choose 0 to 1\."):
        pick_fold([fold, fold], 2, "s.json")
    with pytest.raises(DataError, match=r"num_folds = 6: 5 cases allow 2 to 5 folds"):
        make_splits(KEYS[:5], 6)
    with pytest.raises(DataError, match=r"none.json: this file of splits does not exist"):
        read_splits("none.json")


def test_a_subset_is_a_path():
    subset = Subset("records", ("1",))
    assert os.fspath(subset) == str(subset) == "records"
