"""The images that a job trains on, and those that it holds out."""

import dataclasses
from pathlib import Path
from typing import Any

from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.jobs.settings import Resolution, parse_resolution
from mtf_imaging.training.data_set import DataSet, data_sizes
from mtf_imaging.training.evaluation import Evaluation


@dataclasses.dataclass(frozen=True)
class TrainingData:
    """Images to train on and, if any, held-out images to score while training.

    Attributes:
      data_dir: the folder that `data_set` reads: of records, by default.
      data_set: records, or a data set of one's own.
      eval_dir: the folder of the held-out cases; None for none.
      evaluation: how held-out cases are scored; None for the Dice of records.
      fold: instead of `eval_dir`, the number of the fold of `data_dir` that is held out, from 0.
      num_folds: how many folds there are; None for those of `splits_file`, or 5.
      splits_file: nnU-Net's `splits_final.json`, written if it does not exist.
      split_seed: the seed of folds that are made.
      fold_digest: the digest of the fold that the run began with; None for that of its `run.json`.
    """

    data_dir: str | Path | Subset
    # `Any` beside the protocols: a data set need not derive from anything.
    data_set: DataSet | Any = dataclasses.field(default_factory=Records)
    eval_dir: str | Path | Subset | None = None
    evaluation: Evaluation | Any = None
    fold: int | None = None
    num_folds: int | None = None
    splits_file: str | Path | None = None
    split_seed: int = 0
    fold_digest: str | None = None

    @property
    def is_records(self) -> bool:
        """Whether the images are records, which come in the same order whatever the batch size."""
        return isinstance(self.data_set, Records)

    def sizes(self, resolution: Resolution | None = None) -> tuple[int, ...]:
        """Returns the voxels along each spatial dimension: as asked for, otherwise those of the data."""
        if resolution is None:
            return data_sizes(self.data_set, self.data_dir)
        if not isinstance(resolution, str | int):
            return parse_resolution(resolution)
        dims = 3 if self.is_records else len(data_sizes(self.data_set, self.data_dir))
        return parse_resolution(resolution, dims)


def as_training_data(data: "TrainingData | str | Path") -> TrainingData:
    """Returns a `TrainingData` as it is, and a folder of records as one."""
    return data if isinstance(data, TrainingData) else TrainingData(data)
