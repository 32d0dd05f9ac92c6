"""Checks of the training data before the first step: the data of a resumed run, and labels that the data lack."""

import logging
from pathlib import Path

from mtf_imaging.data.description.differences import refuse_differences
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.errors import DataError
from mtf_imaging.files.run_folder import FACTS
from mtf_imaging.jobs.data.training_data import TrainingData
from mtf_imaging.jobs.held_out.cases import scores_training_cases
from mtf_imaging.kinds.all_kinds import KINDS, explained, read_facts
from mtf_imaging.training.checkpoints.checkpoints import last_checkpoint

_logger = logging.getLogger(__name__)
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


def warn_of_labels(data: TrainingData, model_dir: str | Path) -> None:
    """Warns about classes that no image has, and about images that have only the ignore label.

    A sample of the images is counted; see `LabelSurvey`. A resumed run does not repeat the warnings.

    Args:
      data: the training data and the held-out images.
      model_dir: the run folder.

    Raises:
      DataError: all voxels or pixels of the training data, or of the held-out images, are ignored.
    """
    if last_checkpoint(model_dir) is not None:
        return
    _warn(data.data_dir, data.label_survey, is_held_out=False)
    eval_dir = data.eval_dir if data.evaluation is None else None  # a custom evaluation may read any format
    if eval_dir and not scores_training_cases(data):
        with explained(eval_dir, data.kind, "eval_dir", "data"):
            _warn(eval_dir, data.images.label_survey(eval_dir, data.description, is_held_out=True), is_held_out=True)


def _warn(folder: object, survey: LabelSurvey | None, is_held_out: bool) -> None:
    if survey is None:
        return
    images = f"{'held-out ' if is_held_out else ''}{survey.images}"
    if survey.is_ignored:
        raise DataError(
            f"{folder}: every {survey.unit} of the {survey.num_images} {images} has the ignore label, so there is "
            f"nothing to {'score' if is_held_out else 'learn'}. Fix: give {images} with other labels.",
            ["eval_dir" if is_held_out else "data_dir"],
        )
    _logger.info("%s: %s", folder, survey.summary())
    for text in survey.warnings(is_held_out):
        _logger.warning("%s: %s", folder, text)
