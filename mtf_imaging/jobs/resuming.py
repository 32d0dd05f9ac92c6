"""Checks that a run resumes with the same kind of data with which it began."""

from pathlib import Path

from mtf_imaging.data.description.differences import refuse_differences
from mtf_imaging.errors import DataError
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.jobs.data import TrainingData
from mtf_imaging.kinds.all_kinds import KINDS, read_facts
from mtf_imaging.training.checkpoints.checkpoints import last_checkpoint

_SETTINGS = ("data_dir", "model_dir")


def check_resumed_data(data: TrainingData, model_dir: str | Path) -> None:
    """Checks that the training data have the same description as when the run began.

    A checkpoint fits any data with equally many channels and labels, even if they have a different meaning. A folder
    without a checkpoint begins a new run, with any data.

    Args:
      data: the training data.
      model_dir: the run folder.

    Raises:
      DataError: the run began with data of another kind, or with other channels, labels, classes or categories.
    """
    facts = read_facts(model_dir) if last_checkpoint(model_dir) is not None else None
    if facts is None:
        return
    fix = "resume with the data of the run, or give another model_dir to begin a new run."
    if facts.kind != data.kind.name:
        raise DataError(
            f"{data.data_dir}: holds {data.kind.title}, but the run in {model_dir} began with "
            f"{KINDS[facts.kind].title}. Fix: {fix}",
            _SETTINGS,
        )
    found = data.images.differences(data.description, facts.description, str(Path(model_dir) / FACTS))
    refuse_differences(f"{data.data_dir}: has", found, f"the run in {model_dir} began with", fix, _SETTINGS)
