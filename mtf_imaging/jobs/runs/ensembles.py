"""The runs of a cross-validation as one ensemble."""

import logging
from collections.abc import Sequence
from pathlib import Path

from mtf_imaging.data.description.differences import differences, refuse_differences
from mtf_imaging.errors import CheckpointError, ConfigError
from mtf_imaging.files.run_folder import fold_folders, weights_folder
from mtf_imaging.kinds.all_kinds import read_facts
from mtf_imaging.kinds.facts import VOLUMES
from mtf_imaging.settings.inference import TrainedRunSettings

_logger = logging.getLogger(__name__)


def ensemble_runs(model_dir: str | Path, checkpoint: str) -> list[Path]:
    """Returns the fold folders of a cross-validation, after checking that they form an ensemble.

    Args:
      model_dir: the output folder of `cross_validate`, or another folder with runs named `fold_0`, `fold_1`, ...
      checkpoint: "last" or "best".

    Raises:
      ConfigError: the folder has no folds, or they were trained at different resolutions or spacings.
      CheckpointError: a fold has no such checkpoint.
    """
    folds = fold_folders(model_dir)
    if not folds:
        what = "holds no folds (fold_0, fold_1, ...)" if Path(model_dir).is_dir() else "does not exist"
        raise ConfigError(
            f"{model_dir}: this folder {what}, so there is no ensemble. Fix: give the output_dir of cross_validate as "
            "model_dir, or remove ensemble to use a single run.",
            ["model_dir", "ensemble"],
        )
    for number, folder in folds.items():
        try:
            weights_folder(folder, "last")
        except CheckpointError:
            raise CheckpointError(
                f"{folder}: fold {number} has no checkpoint yet. Fix: train this fold, by running cross_validate with "
                f"the same arguments again, or remove {folder} to leave the fold out.",
            ) from None
        weights_folder(folder, checkpoint)
    runs = [*folds.values()]
    _check_facts(runs)
    _logger.info("ensemble of %d runs: %s", len(runs), ", ".join(run.name for run in runs))
    return runs


def trained_runs(own: TrainedRunSettings) -> list[Path]:
    """Returns the folders of the runs that a job uses, after checking that they have a checkpoint.

    Raises:
      ConfigError, CheckpointError: the same as in `ensemble_runs`.
    """
    if own.ensemble:
        return ensemble_runs(own.model_dir, own.checkpoint)
    weights_folder(own.model_dir, own.checkpoint)
    return [Path(own.model_dir)]


def check_no_fold(ensemble: bool, fold: int | None) -> None:
    """Raises ConfigError if an ensemble would be evaluated on one of its own folds.

    The other networks were trained on these cases, so the scores would be too optimistic.
    """
    if ensemble and fold is not None:
        raise ConfigError(
            f"fold {fold}: the other networks of the ensemble have trained on the cases of this fold. Fix: remove "
            "ensemble or fold, and evaluate an ensemble on cases that none of its folds has.",
            ["ensemble", "fold"],
        )


def _check_facts(runs: Sequence[Path]) -> None:
    """Raises ConfigError if runs were trained at different resolutions or spacings, or on other kinds of data."""
    from mtf_imaging.kinds.volumes.trained import description_of_run  # imports NumPy

    read = [(run, facts) for run in runs if (facts := read_facts(run)) is not None]
    for run, facts in read[1:]:
        for name in ("resolution", "spacing"):
            first, own = (getattr(one, name) for one in (read[0][1], facts))
            if own != first:
                raise ConfigError(
                    f"{run}: was trained with {name} {own or None}, but {read[0][0]} with {first or None}. "
                    "Probabilities can be averaged only on one grid. Fix: train all folds on the same records, or "
                    "remove the folders of the others.",
                    ["model_dir", "ensemble"],
                )
        if facts.kind == VOLUMES:
            found = differences(description_of_run(run), description_of_run(read[0][0]))
            fix = "train all runs on data with one description, or remove the folders of the others."
            refuse_differences(f"{run}: was trained with", found, f"{read[0][0]} with", fix, ["model_dir", "ensemble"])
        elif facts.description != read[0][1].description:
            raise ConfigError(
                f"{run}: was trained on photos with other classes or another scaling than {read[0][0]}; both are in "
                "their run.json. Fix: train all runs on the same photos, or remove the folders of the others.",
                ["model_dir", "ensemble"],
            )
