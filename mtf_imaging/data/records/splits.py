"""Folds of a cross-validation: which cases are trained on and which are held out, in nnU-Net's file of splits."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes

FILE = "splits_final.json"  # nnU-Net's name for it


@dataclass(frozen=True)
class Fold:
    """One way to part cases.

    Attributes:
      train: keys of the cases to train on.
      val: keys of those that are held out.
    """

    train: tuple[str, ...]
    val: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A short name of who is where, whatever the order."""
        text = json.dumps([sorted(self.train), sorted(self.val)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Subset(os.PathLike):
    """Some of the records of a folder; where a folder of records is asked for, it stands for a folder of these alone.

    Attributes:
      folder: that `convert` wrote.
      keys: of the cases.
    """

    folder: str | os.PathLike
    keys: tuple[str, ...]

    def __fspath__(self):
        return os.fspath(self.folder)

    def __str__(self):
        return str(self.folder)


def make_splits(keys: Sequence[str], num_folds: int, seed: int = 0) -> list[Fold]:
    """Parts cases into folds, each held out once; their sizes differ by one at most.

    The order in which cases are dealt out is that of a hash of seed and key, so it depends on nothing else.

    >>> [fold.val for fold in make_splits(["0", "1", "2", "3", "4"], 2)]
    [('2', '3', '4'), ('0', '1')]

    Raises:
      DataError: fewer than 2 folds, or more than cases.
    """
    if not 2 <= num_folds <= len(keys):
        raise DataError(
            f"num_folds = {num_folds}: {len(keys)} cases can be parted into 2 to {len(keys)} folds. "
            "Fix: a number between.",
            settings=["num_folds"],
        )
    dealt = sorted(keys, key=lambda key: hashlib.sha256(f"{seed}/{key}".encode()).digest())
    folds = [set(dealt[number::num_folds]) for number in range(num_folds)]
    return [
        Fold(tuple(key for key in keys if key not in held), tuple(key for key in keys if key in held)) for held in folds
    ]


def write_splits(path: str | Path, splits: Iterable[Fold]) -> None:
    """Writes folds as nnU-Net's `splits_final.json`, whole or not at all: a list of `{"train": keys, "val": keys}`."""
    listed = [{"train": list(fold.train), "val": list(fold.val)} for fold in splits]
    write_bytes(path, (json.dumps(listed, indent=4) + "\n").encode())


def read_splits(path: str | Path) -> list[Fold]:
    """Reads folds, as `write_splits` or nnU-Net wrote them.

    Raises:
      DataError: there is no such file, or it is no list of splits, or a case is in both parts of one.
    """
    try:
        text = Path(path).read_text()
    except FileNotFoundError:
        raise DataError(
            f"{path}: this file of splits does not exist. Fix: give a splits_file that train wrote.",
            settings=["splits_file"],
        ) from None
    try:
        splits = [Fold(_names(split["train"]), _names(split["val"])) for split in json.loads(text)]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f'{path}: is no list of {{"train": [...], "val": [...]}} with names of cases ({error!r}). '
            "Fix: write it as nnU-Net's splits_final.json."
        ) from error
    for number, fold in enumerate(splits):
        both = sorted({*fold.train} & {*fold.val})
        if both:
            raise DataError(
                f"{path}: fold {number} holds out {', '.join(both)}, and trains on it, too. Fix: leave it in one."
            )
        if not fold.train or not fold.val:
            raise DataError(f"{path}: fold {number} has no case in '{'val' if fold.train else 'train'}'. Fix: add one.")
    return splits


def pick_fold(splits: Sequence[Fold], number: int, path: str | Path) -> Fold:
    """One of the folds of a file.

    Raises:
      DataError: the file has no such fold.
    """
    if not 0 <= number < len(splits):
        raise DataError(
            f"{path}: fold {number} is asked for, and it has {len(splits)} folds. Fix: 0 to {len(splits) - 1}.",
            settings=["fold"],
        )
    return splits[number]


def check_cases(fold: Fold, keys: Iterable[str], path: str | Path, folder: str | os.PathLike) -> None:
    """Checks that a fold is one of the cases of a folder.

    Raises:
      DataError: it names cases that the folder has not, or misses some.
    """
    named, there = {*fold.train, *fold.val}, {*keys}
    unknown, missing = sorted(named - there), sorted(there - named)
    if unknown or missing:
        faults = [f"names {', '.join(unknown)}, which {folder} does not have"] if unknown else []
        faults += [f"misses {', '.join(missing)} of {folder}"] if missing else []
        raise DataError(
            f"{path}: {' and '.join(faults)}. Fix: a splits_file of these very cases.", settings=["splits_file"]
        )


def _names(names) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{names!r} is no list of names")
    return tuple(names)
