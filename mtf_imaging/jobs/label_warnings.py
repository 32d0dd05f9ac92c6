"""Warns, before the first training step, about labels that the data lack."""

import logging
from pathlib import Path
from typing import Any

from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.errors import DataError
from mtf_imaging.jobs.data import TrainingData
from mtf_imaging.jobs.held_out import scores_training_cases
from mtf_imaging.kinds.all_kinds import explained
from mtf_imaging.training.checkpoints.checkpoints import last_checkpoint

_logger = logging.getLogger(__name__)


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
    eval_dir: Any = data.eval_dir if data.evaluation is None else None  # a custom evaluation may read any format
    if eval_dir and not scores_training_cases(data):
        with explained(eval_dir, data.kind, "eval_dir", "data"):
            _warn(eval_dir, data.images.label_survey(eval_dir, data.description, is_held_out=True), is_held_out=True)


def _warn(folder: Any, survey: LabelSurvey | None, is_held_out: bool) -> None:
    if survey is None:
        return
    images = f"{'held-out ' if is_held_out else ''}{survey.images}"
    if survey.is_ignored:
        raise DataError(
            f"{folder}: every {survey.unit} of the {survey.num_images} {images} has the ignore label, so there is "
            f"nothing to {'score' if is_held_out else 'learn'}. Fix: give {images} with other labels.",
            ["eval_dir" if is_held_out else "data_dir"],
        )
    for text in survey.warnings(is_held_out):
        _logger.warning("%s: %s", folder, text)
