"""Trains one contender with several seeds in one process, and stores the course of each training run."""

import dataclasses
import json
import logging
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.context_study.contenders import Contender
from benchmarks.context_study.course import Course, Scores
from mtf_imaging.cli.config import gin_config
from mtf_imaging.cli.runtime.quiet import import_tensorflow
from mtf_imaging.data.images.spacing_table import read_spacing_table
from mtf_imaging.data.intensities.window import Window
from mtf_imaging.data.records.manifest import Manifest, open_records
from mtf_imaging.errors import Interrupted
from mtf_imaging.evaluation.volume_scores.overlap import label_overlaps
from mtf_imaging.evaluation.volume_scores.summary import dice_global
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.kinds.volumes.segment.images import find_cases_of
from mtf_imaging.kinds.volumes.segment.segmenter import PredictProbabilities, Segmenter
from mtf_imaging.settings.setting import values_of
from mtf_imaging.settings.training import TrainSettings
from tests.data.reading import read_labels

_NO_END = 10**6  # steps, for a training that ends when its CPU budget is spent


@dataclasses.dataclass(frozen=True)
class Trainings:
    """The training runs of one contender.

    Attributes:
      contender: the contender.
      data_dir: folder of its records.
      held_out_dir: folder of the held-out cases.
      output_dir: folder of the results, one `SEED.json` each.
      budgets: {seed: budget in CPU seconds} of the seeds to train; None for the time of the steps.
      num_steps: the budget in steps; None for the number in the job.
      gin_files, gin_params: the job.
      spacing_table: CSV file with voxel sizes of files whose headers lack them.
    """

    contender: Contender
    data_dir: Path
    held_out_dir: Path
    output_dir: Path
    budgets: Mapping[int, float | None]
    num_steps: int | None
    gin_files: tuple[str, ...]
    gin_params: tuple[str, ...]
    spacing_table: Path | None = None


def run_trainings(own: Trainings) -> None:
    """Runs them one after the other."""
    logging.getLogger("mtf_imaging").setLevel(logging.ERROR)
    settings = _settings(own)
    for seed in own.budgets:
        result = _train(own, settings, seed)
        write_bytes(own.output_dir / f"{seed}.json", (json.dumps(result, indent=1) + "\n").encode())
        at_steps, at_budget = result["at_steps"], result["at_budget"]
        print(f"{own.output_dir}, seed {seed}: {at_steps}; {at_budget}", flush=True)


def _settings(own: Trainings) -> TrainSettings:
    """Returns the settings of the job."""
    import_tensorflow()
    from mtf_imaging.cli.config.setup import JobSetup
    from mtf_imaging.cli.config.training_settings import Job, Training

    gin_config.bind([gin_config.find_gin_file(name) for name in own.gin_files], own.gin_params, {})
    job, training, setup = Job(), Training(), JobSetup()
    changes = {"data": training.source(job, setup, data_dir=own.data_dir), "model_dir": "unused"}
    settings = TrainSettings(**values_of(TrainSettings, job, training, setup, **changes))
    return dataclasses.replace(settings, num_steps=own.num_steps or settings.num_steps)


def _train(own: Trainings, settings: TrainSettings, seed: int) -> dict[str, Any]:
    """Runs one training and returns its course and costs."""
    from mtf_imaging.inference.windows import SlidingWindow
    from mtf_imaging.jobs.data.training_data import as_training_data  # these import TensorFlow
    from mtf_imaging.jobs.steps.costs import explain_step
    from mtf_imaging.jobs.training import run_training
    from mtf_imaging.training.prediction import NetworkBuilder

    manifest, data = open_records(own.data_dir), as_training_data(settings.data)
    records: Any = data.data_set
    volumes = HeldOutVolumes(own.held_out_dir, manifest, records.window, own.spacing_table)
    grid, budget = manifest.grids[0], own.budgets[seed]
    window = own.contender.patch_of(grid)
    folder = own.output_dir / f"{seed}_model"
    shutil.rmtree(folder, ignore_errors=True)
    courses: list[Course] = []
    cost = []

    def watch(program, step, layout) -> Course:
        cost.append(explain_step(step, layout).plan)
        sliding = SlidingWindow(window) if window else None
        builder = NetworkBuilder(task=step.task, dtype=step.dtype, layout=layout, window=sliding)
        network = builder.network_of(program, grid)
        courses.append(Course(lambda: volumes.score(network), settings.num_steps, budget))
        return courses[0]

    mine = dataclasses.replace(
        settings,
        data=dataclasses.replace(data, eval_dir=None),
        model_dir=folder,
        seed=seed,
        num_steps=settings.num_steps if budget is None else _NO_END,
        checkpoint_every=_NO_END,
        eval_every=None,
        patch=window,
        layout=own.contender.layout,
        progress=False,
        stop=lambda: courses[0].stop() if courses else None,
    )
    try:
        run_training(mine, watch)
    except Interrupted:
        if not courses or courses[0].stop() is None:
            raise
    shutil.rmtree(folder, ignore_errors=True)
    (course,) = courses
    points = {name: dataclasses.asdict(getattr(course, name)) for name in ("at_steps", "at_budget")}
    return {
        "seed": seed,
        **points,
        "course": [dataclasses.asdict(point) for point in course.points],
        "peak_bytes": course.peak_bytes,
        "planned_bytes": cost[0].memory,
        "seconds_per_case": volumes.seconds,
    }


class HeldOutVolumes:
    """Held-out volumes in memory, which are scored at their original resolution.

    Args:
      folder: folder of the labeled cases.
      manifest: the records of the network.
      window: (low, high) in HU, as in training, for LiTS.
      spacing_table: CSV file with voxel sizes of files whose headers lack them.

    Attributes:
      seconds: mean duration per case of the last predictions, in seconds.
    """

    def __init__(self, folder: Path, manifest: Manifest, window: Window, spacing_table: Path | None) -> None:
        self._description = manifest.description
        known = read_spacing_table(spacing_table)
        self._segmenter = Segmenter(manifest.sampling, window, self._description, known)
        self._cases = []
        for case in find_cases_of(folder, self._description):
            assert case.labels is not None, "the cases are labeled"
            self._cases.append((case, read_labels(case.labels, self._segmenter.open(case), self._description)))
        self.seconds = 0.0

    def score(self, network: PredictProbabilities) -> Scores:
        """Returns the Dice of each mask, with the voxels of all cases pooled.

        In a mean over cases, a single false voxel of an absent label would count as a Dice of 0.
        """
        overlaps = []
        self.seconds = 0.0
        for case, reference in self._cases:
            began = time.monotonic()
            labels = self._segmenter.segment(self._segmenter.open(case), network).labels.own
            self.seconds += (time.monotonic() - began) / len(self._cases)
            overlaps.append(label_overlaps(labels, reference, self._description))
        return {name: dice_global(overlaps, name) for name in self._description.masks}
