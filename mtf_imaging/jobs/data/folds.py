"""Folds: the records of one folder, divided into training cases and held-out cases."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

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
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.settings.training import NUM_FOLDS


@dataclasses.dataclass(frozen=True)
class FoldData:
    """Training data of one fold.

    Attributes:
      data: the training data, with the fold's cases as held-out cases.
      digest: a short hash of the training and held-out case keys.
      splits: all folds.
      path: the file to which the folds are written, or None.
    """

    data: TrainingData
    digest: str
    splits: list[Fold]
    path: str | Path | None

    def save(self, model_dir: str | Path) -> None:
        """Writes the folds to the run folder, and to `path` if it is set."""
        for path in (Path(model_dir) / FILE, self.path):
            if path is not None:
                write_splits(path, self.splits)


def resolve_fold(data: TrainingData, model_dir: str | Path) -> FoldData | None:
    """Divides records into the training and held-out cases of a fold; returns None without a fold.

    Args:
      data: the training data.
      model_dir: the run folder, which may contain the fold's digest.

    Raises:
      ConfigError: a setting contradicts the fold, or the run began with another fold.
      DataError: the cases in the splits file are not the cases of these records.
    """
    number, path = data.fold, data.splits_file
    if number is None:
        if data.num_folds is not None or path is not None:
            raise ConfigError("num_folds and splits_file have no effect without a fold. Fix: give fold, too.", ["fold"])
        return None
    if data.eval_dir:
        raise ConfigError(
            f"eval_dir {data.eval_dir} and fold {number} both choose the held-out cases. Fix: give only one of them.",
            ["eval_dir", "fold"],
        )
    keys = open_records(data.data_dir).cases
    is_new = not has_splits_file(data)
    splits = make_folds(data, keys) if is_new else read_folds(data)
    fold = pick_fold(splits, number, path or "fold")
    check_cases(fold, keys, path or "fold", data.data_dir)
    facts = read_facts(model_dir)
    before = data.fold_digest or (facts and facts.fold_digest)
    if before not in (None, fold.digest):
        raise ConfigError(
            f"{model_dir}: this run began with another fold, or with other cases in it (digest {before}; fold {number} "
            f"now has {fold.digest}). Fix: give another model_dir, or restore the fold, the splits and the records of "
            "the run.",
            ["model_dir", "fold", "splits_file", "data_dir"],
        )
    train, val = (Subset(data.data_dir, keys) for keys in (fold.train, fold.val))
    fold_data = dataclasses.replace(data, data_dir=train, eval_dir=val)
    return FoldData(fold_data, fold.digest, splits, path if is_new else None)


def has_splits_file(data: TrainingData) -> bool:
    """Returns whether the file of folds exists, in which case it defines the folds."""
    return data.splits_file is not None and Path(data.splits_file).exists()


def read_folds(data: TrainingData) -> list[Fold]:
    """Returns the folds in the file of folds.

    Raises:
      ConfigError: num_folds contradicts the file.
    """
    assert data.splits_file is not None
    splits = read_splits(data.splits_file)
    if data.num_folds not in (None, len(splits)):
        raise ConfigError(
            f"{data.splits_file}: has {len(splits)} folds, but num_folds is {data.num_folds}. Fix: remove num_folds, "
            "or give another splits_file.",
            ["num_folds", "splits_file"],
        )
    return splits


def make_folds(data: TrainingData, keys: Sequence[str]) -> list[Fold]:
    """Returns new folds of the cases with these keys."""
    return make_splits(keys, data.num_folds or NUM_FOLDS, data.split_seed)
