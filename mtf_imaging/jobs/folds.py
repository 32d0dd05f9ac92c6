"""Folds: the records of one folder, parted into those that are trained on and those that are held out."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.records.splits import (
    FILE,
    Fold,
    Subset,
    check_cases,
    make_splits,
    pick_fold,
    read_splits,
    write_splits,
)
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.run import read_facts

if TYPE_CHECKING:
    from mtf_imaging.jobs.data import TrainingData  # it brings TensorFlow, which evaluate imports later

_NUM_FOLDS = 5


@dataclasses.dataclass(frozen=True)
class Parted:
    """A folder of records, parted.

    Attributes:
      data: the records to train on, and those of the fold as held-out cases.
      digest: of who is where.
      splits: all folds.
      path: of the file to write them to, or None.
    """

    data: "TrainingData"
    digest: str
    splits: list[Fold]
    path: str | Path | None

    def save(self, model_dir: str | Path) -> None:
        """Writes the folds beside the run's configuration, and to the file that is to have them."""
        for path in (Path(model_dir) / FILE, self.path):
            if path is not None:
                write_splits(path, self.splits)


def part(data: "TrainingData", model_dir: str | Path) -> Parted | None:
    """Parts the records of a run by its fold; None where it has none.

    Args:
      data: the images.
      model_dir: the folder of the run, for messages and for the digest of its fold.

    Raises:
      ConfigError: what does not go with a fold, or a run goes on with another fold than it began with.
      DataError: a file of splits that is not of these records.
    """
    number, path = data.fold, data.splits_file
    if number is None:
        if data.num_folds is not None or path is not None:
            raise ConfigError("num_folds and splits_file say nothing without a fold. Fix: give fold, too.", ["fold"])
        return None
    if data.eval_dir:
        raise ConfigError(
            f"eval_dir {data.eval_dir} and fold {number}: the fold is what is held out. Fix: leave out one of them.",
            ["eval_dir", "fold"],
        )
    if not data.is_records:
        raise ConfigError(
            f"fold {number}: folds are of records, and the data set is a {type(data.data_set).__name__}. "
            "Fix: leave fold out, and let the data set hold cases out.",
            ["fold"],
        )
    keys = open_records(data.data_dir).cases
    existing = path if path is not None and Path(path).exists() else None
    if existing is not None:
        splits = read_splits(existing)
        if data.num_folds not in (None, len(splits)):
            raise ConfigError(
                f"{path}: has {len(splits)} folds, num_folds is {data.num_folds}. Fix: leave num_folds out, or give "
                "another splits_file.",
                ["num_folds", "splits_file"],
            )
    else:
        splits = make_splits(keys, data.num_folds or _NUM_FOLDS, data.split_seed)
    fold = pick_fold(splits, number, path or "fold")
    check_cases(fold, keys, path or "fold", data.data_dir)
    facts = read_facts(model_dir)
    before = data.fold_digest or (facts and facts.fold_digest)
    if before not in (None, fold.digest):
        raise ConfigError(
            f"{model_dir}: began with another fold, or with other cases in it ({before}), than fold "
            f"{number} is now ({fold.digest}). Fix: another model_dir, or the fold, splits and records of before.",
            ["model_dir", "fold", "splits_file", "data_dir"],
        )
    train, val = (Subset(data.data_dir, keys) for keys in (fold.train, fold.val))
    parted = dataclasses.replace(data, data_dir=train, eval_dir=val)
    return Parted(parted, fold.digest, splits, path if existing is None else None)


def held_out_keys(fold: int | None, splits_file: str | Path | None, model_dir: str | Path) -> tuple[str, ...] | None:
    """Returns the keys of the cases that a fold holds out; None where there is no fold.

    Raises:
      ConfigError: a file of splits and no fold.
      DataError: it cannot be read, or has no such fold.
    """
    if fold is None:
        if splits_file is not None:
            raise ConfigError("splits_file says nothing without a fold. Fix: give fold, too.", ["fold"])
        return None
    path = splits_file or Path(model_dir) / FILE
    return pick_fold(read_splits(path), fold, path).val
