"""Folds of cases: what they are, nnU-Net's file of them, and what is said of one that does not fit."""

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
    # Folds are part of what a run is: these may never change.
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
    ("text", "says"),
    [
        ("{", 'is no list of {"train": [...], "val": [...]} with names of cases'),
        ('[{"train": ["1"]}]', "is no list of"),
        ('[{"train": "12", "val": ["3"]}]', "'12' is no list of names"),
        ('[{"train": [1], "val": [2]}]', "[1] is no list of names"),
        ('[{"train": ["1", "2"], "val": ["2"]}]', "fold 0 holds out 2, and trains on it, too. Fix: leave it in one."),
        ('[{"train": ["1"], "val": []}]', "fold 0 has no case in 'val'. Fix: add one."),
    ],
)
def test_files_that_are_none(text, says, tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_splits(path)
    assert str(error.value).startswith(f"{path}: ")
    assert says in str(error.value)


def test_what_does_not_fit_is_named():
    fold = Fold(("1", "2"), ("3", "x"))
    with pytest.raises(DataError) as error:
        check_cases(fold, ["1", "2", "3", "4", "5"], "s.json", "records")
    assert str(error.value) == (
        "s.json: names x, which records does not have and misses 4, 5 of records. "
        "Fix: a splits_file of these very cases."
    )
    assert error.value.settings == ("splits_file",)
    check_cases(fold, ["x", "1", "2", "3"], "s.json", "records")
    with pytest.raises(DataError, match=r"s.json: fold 2 is asked for, and it has 2 folds\. Fix: 0 to 1\."):
        pick_fold([fold, fold], 2, "s.json")
    with pytest.raises(DataError, match=r"num_folds = 6: 5 cases can be parted into 2 to 5 folds"):
        make_splits(KEYS[:5], 6)
    with pytest.raises(DataError, match=r"none.json: this file of splits does not exist"):
        read_splits("none.json")


def test_a_subset_is_a_path():
    subset = Subset("records", ("1",))
    assert os.fspath(subset) == str(subset) == "records"
