"""A study of Dice against resolution: one network, trained at several resolutions on the same cases."""

import concurrent.futures
import functools
import hashlib
import json
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mtf_imaging.errors import ConfigError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.picklable import pickled
from mtf_imaging.jobs.devices import Devices
from mtf_imaging.layout import ONE_PROCESSOR, Layout

if TYPE_CHECKING:
    from mtf_imaging.evaluation.resolution_study import Run
    from mtf_imaging.training.optimizers import Optimizer
    from mtf_imaging.training.task import Task

_SETTINGS = "study.json"
NUM_CASES = 24
RESOLUTIONS = (32, 64, 96)
SEEDS = (1, 2, 3)


class Steps(Protocol):
    """The steps of a study, each of which runs one of the other jobs."""

    def say(self, text: str) -> None:
        """Announces the next step."""

    def phantom(self, output_dir: Path) -> None:
        """Writes synthetic cases."""

    def convert(self, input_dir: Path, output_dir: Path, resolution: int) -> None:
        """Converts cases to records."""

    def train(self, data_dir: Path, model_dir: Path, seed: int) -> None:
        """Trains one network."""

    def evaluate(self, model_dir: Path, input_dir: Path, output_dir: Path) -> None:
        """Scores one network."""


def study(
    *,
    task: "Task",
    output_dir: str | Path,
    input_dir: str | Path | None = None,
    held_out_dir: str | Path | None = None,
    num_cases: int = NUM_CASES,
    resolutions: Sequence[int] = RESOLUTIONS,
    seeds: Sequence[int] = SEEDS,
    num_steps: int = 400,
    optimizer: "Optimizer | None" = None,
    layout: Layout = ONE_PROCESSOR,
    devices: Devices | None = None,
    batch_size: int = 1,
    micro_batches: int = 1,
    dtype: str = "float32",
    progress: bool = True,
) -> "list[Run]":
    """Trains one network at several resolutions on the same cases, and writes a table and a picture of the scores.

    An interrupted study resumes where it stopped, and you can add resolutions and seeds to a finished study. Every step
    runs in a separate process, so the task and the optimizer must be picklable.

    Args:
      task: the network and its loss.
      output_dir: the folder for all files of the study.
      input_dir: the folder of cases; None for synthetic abdomens.
      held_out_dir: the folder of cases to score; None to hold out every fourth case.
      num_cases: number of synthetic cases to write.
      resolutions: the resolutions, each in voxels along every axis.
      seeds: the seeds; there is one run per seed and resolution.
      num_steps: number of steps of each run.
      optimizer: the optimizer; None for Adam.
      layout: the mesh of processors and the dimensions to split over it.
      devices: the devices that compute; None for the devices of this process.
      batch_size: volumes in a step.
      micro_batches: number of equal pieces of a batch, computed one after the other.
      dtype: the dtype of images and activations.
      progress: whether to show progress bars and announce each step.

    Returns:
      The scores of each run.

    Raises:
      ConfigError: an argument is invalid, or the folder contains a study with other settings.
      DataError: a case is unusable.
    """
    shared = {"task": task, "layout": layout, "devices": devices, "dtype": dtype, "progress": progress}
    training = {"optimizer": optimizer, "num_steps": num_steps, "batch_size": batch_size}
    steps = _Processes(num_cases, shared, training | {"micro_batches": micro_batches})
    network = pickled((task, optimizer), "every training of a study")
    settings = {
        "input_dir": input_dir and str(input_dir),
        "held_out_dir": held_out_dir and str(held_out_dir),
        "num_cases": num_cases,
        "num_steps": num_steps,
        "batch_size": batch_size,
        "dtype": dtype,
        "task": type(task).__name__,
        "digest": hashlib.sha256(network).hexdigest()[:16],
    }
    return run_study(
        steps,
        output_dir=output_dir,
        input_dir=input_dir,
        held_out_dir=held_out_dir,
        num_cases=num_cases,
        resolutions=resolutions,
        seeds=seeds,
        settings=settings,
        progress=progress,
    )


def run_study(
    steps: Steps,
    *,
    output_dir: str | Path,
    input_dir: str | Path | None,
    held_out_dir: str | Path | None,
    num_cases: int,
    resolutions: Sequence[int],
    seeds: Sequence[int],
    settings: dict,
    progress: bool = True,
) -> "list[Run]":
    """Runs the steps of a study.

    Args:
      steps: the steps.
      output_dir, input_dir, held_out_dir, num_cases, resolutions, seeds, progress: the same as in `study`.
      settings: the settings that all runs of the study share, as a JSON object. One folder cannot contain studies
        with different settings.

    Returns:
      The scores of each run.

    Raises:
      ConfigError: the arguments contradict each other, or the folder contains a study with other settings.
    """
    from mtf_imaging.evaluation.resolution_study import read_run, study_table, write_study  # these import matplotlib

    if held_out_dir and not input_dir:
        raise ConfigError("held_out_dir requires a folder of training cases. Fix: give it as input_dir.", ["input_dir"])
    for name, folder in {"input_dir": input_dir, "held_out_dir": held_out_dir}.items():
        if folder:
            from mtf_imaging.kinds.all_kinds import check_volumes  # imports NumPy

            check_volumes(folder, "a study resamples CT cases; train on {kind} once per size of the crops.", name)
    out = Path(output_dir)
    _keep_settings(out, settings)
    cases = Path(input_dir or out / "cases")
    if not input_dir and not _has_cases(cases, num_cases):
        steps.say("Write CT cases of synthetic abdomens with many small lesions.")
        steps.phantom(cases)
    train, held_out = cases, held_out_dir and Path(held_out_dir)
    if not held_out:
        train, held_out = out / "train", out / "held_out"
        from mtf_imaging.data.cases.hold_out import EVERY, hold_out  # imports NumPy

        steps.say(f"Hold out every {EVERY}th case for the test, in {held_out}; train on the others.")
        hold_out(cases, train, held_out)
    runs = []
    for resolution in sorted(resolutions):
        records = out / f"records_{resolution}"
        if not all(_metrics(out, resolution, seed).is_file() for seed in seeds):
            steps.say(f"Resample the cases to {resolution}^3 voxels.")
            steps.convert(train, records, resolution)
        for seed in seeds:
            metrics = _metrics(out, resolution, seed)
            if not metrics.is_file():  # the file is written last, so it marks a finished run
                model = metrics.parents[1] / "model"
                steps.say(
                    f"Train at {resolution}^3, seed {seed}, and score the held-out cases in their original voxels."
                )
                steps.train(records, model, seed)
                steps.evaluate(model, held_out, metrics.parent)
            runs.append(read_run(resolution, seed, metrics))
            write_study(out, runs, _title(input_dir, runs))
    if progress:
        print(f"\n{study_table(runs)}\n\nPicture: {out / 'study.png'}\nTable: {out / 'study.csv'}", flush=True)
    return runs


class _Processes:
    """Steps that call the jobs of this package, each in a separate process, which releases its memory when it ends."""

    def __init__(self, num_cases: int, shared: dict, training: dict) -> None:
        self._num_cases, self._shared, self._training = num_cases, shared, training
        self._progress = shared["progress"]

    def say(self, text: str) -> None:
        if self._progress:
            print(f"\n# {text}", flush=True)

    def phantom(self, output_dir: Path) -> None:
        from mtf_imaging.data.phantom import write_phantom

        write_phantom(output_dir, self._num_cases, seed=1, kind="small_lesions")

    def convert(self, input_dir: Path, output_dir: Path, resolution: int) -> None:
        from mtf_imaging.jobs.converting import convert

        options = {"resolution": resolution, "progress": self._progress}
        convert(input_dir=input_dir, output_dir=output_dir, **options)

    def train(self, data_dir: Path, model_dir: Path, seed: int) -> None:
        from mtf_imaging.jobs.training import train

        options = self._shared | self._training | {"seed": seed}
        _in_process(functools.partial(train, data=data_dir, model_dir=model_dir, **options))

    def evaluate(self, model_dir: Path, input_dir: Path, output_dir: Path) -> None:
        from mtf_imaging.jobs.evaluating import evaluate

        folders: dict[str, Any] = {"model_dir": model_dir, "input_dir": input_dir, "output_dir": output_dir}
        _in_process(functools.partial(evaluate, **folders, **self._shared))


def _in_process(call: Callable[[], object]) -> None:
    """Calls a function in a separate process; its return value is discarded."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as process:
        process.submit(_for_effect, call).result()


def _for_effect(call: Callable[[], object]) -> None:
    call()


def _has_cases(cases: Path, number: int) -> bool:
    """Whether all synthetic cases exist. Incomplete files have other names, so they do not count."""
    return all(len(list(cases.glob(f"{kind}-*.nii.gz"))) == number for kind in ("volume", "segmentation"))


def _metrics(out: Path, resolution: int, seed: int) -> Path:
    return out / f"{resolution}_seed_{seed}" / "evaluation" / "metrics.json"


def _title(input_dir: str | Path | None, runs: "Sequence[Run]") -> str:
    what = input_dir or "synthetic abdomens (phantoms)"
    number = len({run.seed for run in runs})
    return f"Dice of held-out cases against resolution: {what}, {number} seed{'s' * (number > 1)}"


def _keep_settings(out: Path, settings: dict) -> None:
    """Saves the settings of a study, or compares them with the settings that its folder already contains.

    Raises:
      ConfigError: the folder contains a study with other settings, or other files.
    """
    path = out / _SETTINGS
    if not path.is_file():
        if out.is_dir() and any(out.iterdir()):
            raise ConfigError(
                f"{out}: contains files that are not part of a study. Fix: give a new or empty folder as output_dir.",
                ["output_dir"],
            )
        write_bytes(path, (json.dumps(settings, indent=1) + "\n").encode())
        return
    saved = json.loads(path.read_text())
    for name, value in settings.items():
        if saved.get(name) != value:
            raise ConfigError(
                f"{out}: contains a study with {name} {saved.get(name)}, but {value} is given. "
                "Fix: give the same value, or another output_dir. Only resolutions and seeds can be added.",
                [name, "output_dir"],
            )
