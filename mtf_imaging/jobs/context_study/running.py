"""Trains one contender with several seeds in one process, and stores the course of each training run."""

import dataclasses
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtf_imaging.errors import Interrupted
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.jobs.context_study.contenders import Contender

if TYPE_CHECKING:
    from mtf_imaging.data.images.spacing_table import SpacingTable
    from mtf_imaging.layout import Layout
    from mtf_imaging.program.program import Program
    from mtf_imaging.settings.training import TrainSettings
    from mtf_imaging.training.step import TrainingStep

_NO_END = 10**6  # steps, for a training that ends when its CPU budget is spent


@dataclasses.dataclass(frozen=True)
class Trainings:
    """The training runs of one contender.

    Attributes:
      contender: the contender.
      data_dir: folder of its records.
      held_out_dir: folder of the held-out cases.
      output_dir: folder of the results, one `SEED.json` each.
      seeds: the seeds to train.
      num_steps: the budget in steps; None for the value in the settings.
      budgets: {seed: budget in CPU seconds}; seeds that are not listed get the time of `num_steps` steps.
      make: a function that returns the training settings for a records folder; called once in the process.
      spacing_table: CSV file with voxel sizes of files whose headers lack them.
      core: the core on which the process runs; None for any.
      progress: whether to print the scores of each training run.
    """

    contender: Contender
    data_dir: Path
    held_out_dir: Path
    output_dir: Path
    seeds: tuple[int, ...]
    num_steps: int | None
    budgets: Mapping[int, float]
    make: "Callable[[Path], TrainSettings]"
    spacing_table: "str | Path | SpacingTable | None" = None
    core: int | None = None
    progress: bool = True


def run_trainings(own: Trainings) -> None:
    """Runs them one after the other."""
    if own.core is not None:
        os.sched_setaffinity(0, {own.core})  # must come before TensorFlow counts the cores
    logging.getLogger("mtf_imaging").setLevel(logging.ERROR)
    settings = own.make(own.data_dir)
    if own.num_steps is not None:
        settings = dataclasses.replace(settings, num_steps=own.num_steps)
    for seed in own.seeds:
        result = _train(own, settings, seed)
        write_bytes(own.output_dir / f"{seed}.json", (json.dumps(result, indent=1) + "\n").encode())
        if own.progress:
            print(f"{own.output_dir}, seed {seed}: {_text(result)}", flush=True)


def _text(result: Mapping[str, Any]) -> str:
    at_steps, at_budget = result["at_steps"], result["at_budget"]
    return "; ".join(
        f"{point['step']} steps, {point['cpu_seconds']:.0f} CPU s: "
        + ", ".join(f"{name} {dice:.3f}" for name, dice in point["dice"].items())
        for point in (at_steps, at_budget)
    )


def _train(own: Trainings, settings: "TrainSettings", seed: int) -> dict[str, Any]:
    """Runs one training and returns its course and costs."""
    from mtf_imaging.data.images.spacing_table import read_spacing_table
    from mtf_imaging.data.records.manifest import open_records
    from mtf_imaging.jobs.context_study.course import Course
    from mtf_imaging.jobs.context_study.scoring import HeldOutVolumes
    from mtf_imaging.jobs.data import as_training_data
    from mtf_imaging.jobs.explaining import explain_step
    from mtf_imaging.jobs.training import run_training
    from mtf_imaging.network.windows import SlidingWindow
    from mtf_imaging.training.prediction import NetworkBuilder

    manifest, data = open_records(own.data_dir), as_training_data(settings.data)
    records: Any = data.data_set
    known = read_spacing_table(own.spacing_table)
    volumes = HeldOutVolumes(own.held_out_dir, manifest.sampling, records.window, manifest.description, known)
    grid, budget = manifest.grids[0], own.budgets.get(seed)
    window = own.contender.patch_of(grid)
    folder = own.output_dir / f"{seed}_model"
    shutil.rmtree(folder, ignore_errors=True)
    courses: list[Course] = []
    cost = []

    def watch(program: "Program", step: "TrainingStep", layout: "Layout") -> Course:
        cost.append(explain_step(step, layout).plan)
        sliding = None if window is None else SlidingWindow(window)
        own = NetworkBuilder(task=step.task, dtype=step.dtype, layout=layout, window=sliding)
        network = own.network_of(program, grid)
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
