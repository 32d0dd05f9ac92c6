"""Creates, reads and writes the folds of a cross-validation, in the format of nnU-Net's `splits_final.json`."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.data.listing.names import normalize_name
from mtf_imaging.errors import ConfigError, DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.json_file import read_json

FILE = "splits_final.json"  # the name that nnU-Net uses


@dataclass(frozen=True)
class Fold:
    """One fold of a cross-validation.

    Attributes:
      train: keys of the cases to train on.
      val: keys of the held-out cases.
    """

    train: tuple[str, ...]
    val: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A short digest of both sets of keys, independent of their order."""
        text = json.dumps([sorted(self.train), sorted(self.val)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Subset(os.PathLike):
    """A subset of the records in a folder, accepted wherever a records folder is.

    Attributes:
      folder: a folder that `convert` wrote.
      keys: keys of the cases in the subset.
    """

    folder: str | os.PathLike
    keys: tuple[str, ...]

    def __fspath__(self):
        return os.fspath(self.folder)

    def __str__(self):
        return str(self.folder)


def make_splits(keys: Sequence[str], num_folds: int, seed: int = 0) -> list[Fold]:
    """Splits cases into folds; each case is held out once, and fold sizes differ by at most one.

    Cases are assigned in the order of a hash of seed and key, so the folds depend on nothing else.

    >>> [fold.val for fold in make_splits(["0", "1", "2", "3", "4"], 2)]
    [('2', '3', '4'), ('0', '1')]

    Raises:
      DataError: `num_folds` is below 2 or above the number of cases.
    """
    if not 2 <= num_folds <= len(keys):
        what = f"num_folds = {num_folds}: {len(keys)} cases allow 2 to {len(keys)} folds"
        raise DataError(f"{what}. Fix: choose a number in this range.", ["num_folds"])
    shuffled = sorted(keys, key=lambda key: hashlib.sha256(f"{seed}/{key}".encode()).digest())
    folds = [set(shuffled[number::num_folds]) for number in range(num_folds)]
    return [
        Fold(tuple(key for key in keys if key not in val), tuple(key for key in keys if key in val)) for val in folds
    ]


def write_splits(path: str | Path, splits: Iterable[Fold]) -> None:
    """Writes folds atomically as JSON, a list of `{"train": keys, "val": keys}`, which nnU-Net reads."""
    listed = [{"train": list(fold.train), "val": list(fold.val)} for fold in splits]
    write_bytes(path, (json.dumps(listed, indent=4) + "\n").encode())


def read_splits(path: str | Path) -> list[Fold]:
    """Reads folds that `write_splits` or nnU-Net wrote.

    Raises:
      DataError: the file does not exist or is not a list of splits, or a fold has an empty set or a case in both sets.
    """
    if not Path(path).exists():
        what = "this file of splits does not exist. Fix: give a splits_file that train wrote"
        raise DataError(f"{path}: {what}.", ["splits_file"])
    stored = read_json(path, "use the format of nnU-Net's splits_final.json")
    try:
        splits = [Fold(_names(split["train"]), _names(split["val"])) for split in stored]
    except (ValueError, KeyError, TypeError) as error:
        what = f'not a list of {{"train": [...], "val": [...]}} with names of cases ({error!r})'
        raise DataError(f"{path}: {what}. Fix: use the format of nnU-Net's splits_final.json.") from error
    for number, fold in enumerate(splits):
        both = sorted({*fold.train} & {*fold.val})
        if both:
            what = f"fold {number} both holds out and trains on {', '.join(both)}"
            raise DataError(f"{path}: {what}. Fix: keep each case in one list.")
        if not fold.train or not fold.val:
            raise DataError(f"{path}: fold {number} has no case in '{'val' if fold.train else 'train'}'. Fix: add one.")
    return splits


def pick_fold(splits: Sequence[Fold], number: int, path: str | Path) -> Fold:
    """Returns one fold of a file.

    Raises:
      DataError: the fold is not in the file.
    """
    if not 0 <= number < len(splits):
        what = f"fold {number} does not exist; there are {len(splits)} folds"
        raise DataError(f"{path}: {what}. Fix: choose 0 to {len(splits) - 1}.", ["fold"])
    return splits[number]


def check_cases(fold: Fold, keys: Iterable[str], path: str | Path, folder: str | os.PathLike) -> None:
    """Checks that a fold has exactly the cases in a folder.

    Raises:
      DataError: the fold names cases that are not in the folder, or lacks cases in the folder.
    """
    names, cases = {*fold.train, *fold.val}, {*keys}
    unknown, missing = sorted(names - cases), sorted(cases - names)
    if unknown or missing:
        faults = [f"names cases that are not in {folder} ({', '.join(unknown)})"] if unknown else []
        faults += [f"lacks cases of {folder} ({', '.join(missing)})"] if missing else []
        what = f"the fold {' and '.join(faults)}. Fix: use a splits_file of exactly these cases"
        raise DataError(f"{path}: {what}.", ["splits_file"])


def _names(names) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{names!r} is not a list of names")
    return tuple(map(normalize_name, names))


def held_out_keys(fold: int | None, splits_file: str | Path | None, model_dir: str | Path) -> tuple[str, ...] | None:
    """Returns the keys of the held-out cases of a fold; None without a fold.

    Raises:
      ConfigError: there is a splits file but no fold.
      DataError: the splits file cannot be read, or does not contain the fold.
    """
    if fold is None:
        if splits_file is not None:
            raise ConfigError("splits_file has no effect without a fold. Fix: give fold, too.", ["fold"])
        return None
    path = splits_file or Path(model_dir) / FILE
    return pick_fold(read_splits(path), fold, path).val
