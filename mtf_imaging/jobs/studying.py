"""Studies that train one network on the same cases at several resolutions, or on whole volumes and patches."""

import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.scoring.files import has_results
from mtf_imaging.files.picklable import pickled
from mtf_imaging.files.workers import worker_pool
from mtf_imaging.jobs.study_folder import keep_settings
from mtf_imaging.settings.data import CONTEXT, StudyCases, StudySettings
from mtf_imaging.settings.inference import EvaluateSettings
from mtf_imaging.settings.setting import takes, values_of
from mtf_imaging.settings.training import TrainSettings

if TYPE_CHECKING:
    from mtf_imaging.evaluation.context_study import Run as ContextRun
    from mtf_imaging.evaluation.resolution_study import Run


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


@takes(StudySettings)
def study(own: StudySettings) -> "list[Run] | list[ContextRun]":
    """Trains one network at several resolutions on the same cases, and writes a table and a picture of the scores.

    With the kind "context", it compares whole volumes, patches and half the resolution instead, at equal steps and at
    equal CPU time.

    An interrupted study resumes where it stopped, and you can add resolutions and seeds to a finished study. Every step
    runs in a separate process, so the task and the optimizer must be picklable.

    Returns:
      The scores of each run.

    Raises:
      ConfigError: an argument is invalid, or the folder contains a study with other settings.
      DataError: a case is unusable.
    """
    digest = hashlib.sha256(pickled((own.task, own.optimizer), "every training of a study")).hexdigest()[:16]
    kept = ("input_dir", "held_out_dir", "num_steps", "batch_size", "dtype")
    settings = {name: _plain(getattr(own, name)) for name in kept}
    settings |= {"num_cases": own.cases_to_write}
    settings |= {"task": type(own.task).__name__, "digest": digest}
    if own.kind == CONTEXT:
        from mtf_imaging.jobs.context_study.study import run_context_study

        shared = {name: _plain(getattr(own, name)) for name in ("kind", "spacing", "multiple")}
        return run_context_study(own, functools.partial(_training, own), settings | shared, own.num_steps)
    return run_study(_Processes(own), own, settings)


def _training(own: StudySettings, data_dir: Path) -> TrainSettings:
    """Returns the training settings for a context study."""
    return TrainSettings(**values_of(TrainSettings, own, data=str(data_dir), model_dir="unused"))


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def run_study(steps: Steps, own: StudyCases, settings: dict) -> "list[Run]":
    """Runs the steps of a study.

    Args:
      steps: the steps.
      own: the cases, resolutions and seeds.
      settings: the settings that all runs of the study share, as a JSON object. One folder cannot contain studies
        with different settings.

    Returns:
      The scores of each run.

    Raises:
      ConfigError: the arguments contradict each other, or the folder contains a study with other settings.
    """
    from mtf_imaging.evaluation.resolution_study import read_run, study_table, write_study  # these import matplotlib

    if own.held_out_dir and not own.input_dir:
        raise ConfigError("held_out_dir requires a folder of training cases. Fix: give it as input_dir.", ["input_dir"])
    for name, folder in {"input_dir": own.input_dir, "held_out_dir": own.held_out_dir}.items():
        if folder:
            from mtf_imaging.kinds.all_kinds import check_volumes  # imports NumPy

            check_volumes(folder, "a study resamples CT cases; train on {kind} once per size of the crops.", name)
    if own.input_dir and own.held_out_dir:
        check_held_out_cases(own.input_dir, own.held_out_dir)
    out = Path(own.output_dir)
    keep_settings(out, settings, "resolutions and seeds")
    cases = Path(own.input_dir or out / "cases")
    if not own.input_dir and not _has_cases(cases, own.cases_to_write):
        steps.say("Write CT cases of synthetic abdomens with many small lesions.")
        steps.phantom(cases)
    train, held_out = cases, own.held_out_dir and Path(own.held_out_dir)
    if not held_out:
        train, held_out = out / "train", out / "held_out"
        from mtf_imaging.data.cases.hold_out import EVERY, hold_out  # imports NumPy

        steps.say(f"Hold out every {EVERY}th case for the test, in {held_out}; train on the others.")
        hold_out(cases, train, held_out)
    runs = []
    for resolution in sorted(own.resolutions):
        records = out / f"records_{resolution}"
        if not all(has_results(_metrics(out, resolution, seed).parent) for seed in own.seeds):
            steps.say(f"Resample the cases to {resolution}^3 voxels.")
            steps.convert(train, records, resolution)
        for seed in own.seeds:
            metrics = _metrics(out, resolution, seed)
            if not has_results(metrics.parent):
                model = metrics.parents[1] / "model"
                steps.say(
                    f"Train at {resolution}^3, seed {seed}, and score the held-out cases in their original voxels."
                )
                steps.train(records, model, seed)
                steps.evaluate(model, held_out, metrics.parent)
            runs.append(read_run(resolution, seed, metrics))
            write_study(out, runs, _title(own.input_dir, runs))
    if own.progress:
        print(f"\n{study_table(runs)}\n\nPicture: {out / 'study.png'}\nTable: {out / 'study.csv'}", flush=True)
    return runs


def check_held_out_cases(input_dir: str | Path, held_out_dir: str | Path) -> None:
    """Checks, before training, that the held-out cases have the channels and labels of the training cases.

    Args:
      input_dir: the folder of the training cases.
      held_out_dir: the folder of the held-out cases. Without a `dataset.json`, they are read like the training cases.

    Raises:
      DataError: the descriptions differ.
    """
    from mtf_imaging.data.description.dataset_json import find_description  # these import NumPy
    from mtf_imaging.data.description.description import LITS
    from mtf_imaging.data.description.differences import differences, refuse_differences

    own = find_description(held_out_dir)[0]
    if own is not None:
        found = differences(own, find_description(input_dir)[0] or LITS)
        fix = "hold out cases of the same data set."
        refuse_differences(f"{held_out_dir}: dataset.json has", found, f"{input_dir} has", fix, ["held_out_dir"])


class _Processes:
    """Steps that call the jobs of this package, each in a separate process, which releases its memory when it ends."""

    def __init__(self, own: StudySettings) -> None:
        self._own = own

    def say(self, text: str) -> None:
        if self._own.progress:
            print(f"\n# {text}", flush=True)

    def phantom(self, output_dir: Path) -> None:
        from mtf_imaging.data.phantom import write_phantom

        write_phantom(output_dir, self._own.cases_to_write, seed=1, kind="small_lesions")

    def convert(self, input_dir: Path, output_dir: Path, resolution: int) -> None:
        from mtf_imaging.jobs.converting import convert

        convert(input_dir=input_dir, output_dir=output_dir, resolution=resolution, progress=self._own.progress)

    def train(self, data_dir: Path, model_dir: Path, seed: int) -> None:
        from mtf_imaging.jobs.training import train

        own = values_of(TrainSettings, self._own, data=data_dir, model_dir=model_dir, seed=seed)
        _in_process(functools.partial(train, **own))

    def evaluate(self, model_dir: Path, input_dir: Path, output_dir: Path) -> None:
        from mtf_imaging.jobs.evaluating import evaluate

        folders = {"model_dir": model_dir, "input_dir": input_dir, "output_dir": output_dir}
        _in_process(functools.partial(evaluate, **values_of(EvaluateSettings, self._own, **folders)))


def _in_process(call: Callable[[], object]) -> None:
    """Calls a function in a separate process if possible; its return value is discarded."""
    pool = worker_pool(1)
    if pool is None:
        call()
        return
    with pool as process:
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
