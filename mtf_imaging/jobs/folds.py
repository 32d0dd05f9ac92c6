"""`--fold`: the records of one folder, parted into those that are trained on and those that are held out."""

import dataclasses
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

_NUM_FOLDS = 5


@dataclasses.dataclass(frozen=True)
class Parted:
    """A folder of records, parted.

    Attributes:
      train: the records to train on.
      val: those that are held out.
      digest: of who is where.
      splits: all folds.
      path: of the file to write them to, or None.
    """

    train: Subset
    val: Subset
    digest: str
    splits: list[Fold]
    path: str | None

    def save(self, model_dir: str) -> None:
        """Writes the folds beside the run's configuration, and to the file that is to have them."""
        for path in (Path(model_dir) / FILE, self.path):
            if path is not None:
                write_splits(path, self.splits)


def part(training, data_dir: str, eval_dir: str | None, model_dir: str) -> Parted | None:
    """Parts the records of a run by its fold; None where it has none.

    Args:
      training: a `training.Training`.
      data_dir: the folder of records.
      eval_dir: the folder of held-out records, if there is one.
      model_dir: the folder of the run, for messages.

    Raises:
      ConfigError: what does not go with a fold, or a run goes on with another fold than it began with.
      DataError: a file of splits that is not of these records.
    """
    number, path = training.fold, training.splits_file
    if number is None:
        if training.num_folds is not None or path is not None:
            raise ConfigError("--num_folds and --splits_file say nothing without a fold. Fix: give --fold, too.")
        return None
    if eval_dir:
        raise ConfigError(
            f"--eval_dir {eval_dir} and --fold {number}: the fold is what is held out. Fix: leave out one of them."
        )
    if training.data is not None:
        raise ConfigError(
            f"--fold {number}: folds are of records, and train.data is a {type(training.data).__name__}. "
            "Fix: leave it out, and let train.data do it."
        )
    keys = open_records(data_dir).cases
    is_there = path is not None and Path(path).exists()
    if is_there:
        splits = read_splits(path)
        if training.num_folds not in (None, len(splits)):
            raise ConfigError(
                f"{path}: has {len(splits)} folds, --num_folds is {training.num_folds}. Fix: leave it out, or "
                "another --splits_file."
            )
    else:
        splits = make_splits(keys, training.num_folds or _NUM_FOLDS, training.split_seed)
    fold = pick_fold(splits, number, path or "--fold")
    check_cases(fold, keys, path or "--fold", data_dir)
    if training.fold_digest not in (None, fold.digest):
        raise ConfigError(
            f"{model_dir}: began with another fold, or with other cases in it ({training.fold_digest}), than fold "
            f"{number} is now ({fold.digest}). Fix: another --model_dir, or the fold, splits and records of before."
        )
    parts = (Subset(data_dir, keys) for keys in (fold.train, fold.val))
    return Parted(*parts, fold.digest, splits, None if is_there else path)


def held_out_keys(number: int | None, splits_file: str | None, model_dir: str) -> tuple[str, ...] | None:
    """Keys of the cases that a fold holds out, for evaluate; None where there is no fold.

    Raises:
      ConfigError: a file of splits and no fold.
      DataError: it cannot be read, or has no such fold.
    """
    if number is None:
        if splits_file is not None:
            raise ConfigError("--splits_file says nothing without a fold. Fix: give --fold, too.")
        return None
    path = splits_file or Path(model_dir) / FILE
    return pick_fold(read_splits(path), number, path).val
