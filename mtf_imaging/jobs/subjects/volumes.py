"""Evaluation and prediction of volumes."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.evaluation.evaluate import cases_to_evaluate
from mtf_imaging.evaluation.evaluate import evaluate as evaluate_cases
from mtf_imaging.evaluation.scoring.case import CaseScore
from mtf_imaging.evaluation.segment.predict import plan_predictions, predict_cases, run_network
from mtf_imaging.jobs.folds import held_out_keys
from mtf_imaging.jobs.network import trained_network
from mtf_imaging.jobs.run import description_of_run, read_facts, sampling_of_run
from mtf_imaging.jobs.subjects.custom import check_input
from mtf_imaging.jobs.subjects.folders import VOLUMES, explained
from mtf_imaging.jobs.subjects.subject import Inference

if TYPE_CHECKING:
    from mtf_imaging.training.evaluation import Predict
    from mtf_imaging.training.task import Task

_IDLE = {
    "scales": "volumes are resampled to the voxel size of the network",
    "split": "only folders of photos or objects have splits",
}


class Volumes:
    """Cases that a network segments on the voxel grid of its training.

    Args:
      run: the folder of the run.
      settings: the settings of the job.

    Raises:
      ConfigError: a setting has no effect on volumes, or there is a file of folds but no fold.
      DataError: the file of facts of the run is damaged, or the fold does not exist.
    """

    kind = VOLUMES

    def __init__(self, run: Path, settings: Inference) -> None:
        settings.check_idle(_IDLE)
        self._run, self._settings = run, settings
        self._description = description_of_run(run)
        self._only = held_out_keys(settings.fold, settings.splits_file, run)

    @property
    def description(self) -> Description:
        return self._description

    @functools.cached_property
    def _sampling(self) -> AnySampling:
        return sampling_of_run(self._run, self._settings.resolution, self._settings.spacing)

    def find_labeled(self, input_dir: str | Path, output_dir: str | Path) -> list[Case]:
        own = self._settings
        with explained(input_dir, VOLUMES, "input_dir", "model_dir"):
            options = self._only, own.spacing_table, self._description, own.output_format
            return cases_to_evaluate(input_dir, output_dir, *options)

    def plan_predictions(
        self, input_path: str | Path, output_path: str | Path, overwrite: bool
    ) -> list[tuple[Case, Path]]:
        own = self._settings
        options = overwrite, own.submission, own.spacing_table, self._description, own.output_format
        with explained(input_path, VOLUMES, "input", "model_dir"):
            return plan_predictions(input_path, output_path, *options)

    def network(
        self, task: "Task", runs: Sequence[Path], checkpoint: str, images: Sequence[Case], **options: Any
    ) -> "Predict":
        check_input(task, runs[0], read_facts(runs[0]), self._sampling.grids[0])
        return trained_network(task, self._sampling.grids, runs, checkpoint, self._settings.flips, **options)

    def run_network(self, images: Sequence[Case], network: "Predict") -> None:
        own = self._settings
        run_network(images, self._sampling, network, own.window, own.spacing_table, self._description)

    def evaluate(
        self,
        images: Sequence[Case],
        network: "Predict",
        input_dir: str | Path,
        output_dir: str | Path,
        num_pictures: int,
        progress: bool,
    ) -> list[CaseScore]:
        own = self._settings
        return evaluate_cases(
            input_dir,
            output_dir,
            self._sampling,
            network,
            own.window,
            num_pictures=num_pictures,
            progress=progress,
            cleanup=own.cleanup,
            known=own.spacing_table,
            cases=images,
            description=self._description,
        )

    def predict(
        self,
        planned: list[tuple[Case, Path]],
        network: "Predict",
        input_path: str | Path,
        output_path: str | Path,
        overwrite: bool,
        progress: bool,
    ) -> list[Path]:
        own = self._settings
        return predict_cases(
            input_path,
            output_path,
            self._sampling,
            network,
            own.window,
            progress=progress,
            overwrite=overwrite,
            cleanup=own.cleanup,
            submission=own.submission,
            known=own.spacing_table,
            planned=planned,
            description=self._description,
        )
