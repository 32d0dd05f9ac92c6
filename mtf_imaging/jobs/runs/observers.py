"""The observers of a training run, which write its tables, plots, events and traces, and its experiment trackers."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import mtf_imaging
from mtf_imaging.engine.layout import Layout
from mtf_imaging.evaluation.report import progress as curves
from mtf_imaging.files.run_folder import CONFIG, EVAL, TRAIN
from mtf_imaging.settings.as_text import as_text
from mtf_imaging.settings.patches import PatchSettings
from mtf_imaging.settings.setting import settings_of
from mtf_imaging.settings.step import BatchSettings, NetworkSettings
from mtf_imaging.settings.training import RunSettings, TrainSettings
from mtf_imaging.training.describe import fenced
from mtf_imaging.training.observers.early_warnings import EarlyWarnings
from mtf_imaging.training.observers.evaluator import Evaluator
from mtf_imaging.training.observers.events import StepValues, TrainingEvents
from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.step_table import LossLog
from mtf_imaging.training.observers.trace import StepTrace, parse_steps
from mtf_imaging.training.observers.tracking.service import RunInfo
from mtf_imaging.training.observers.tracking.services import SERVICES, parse_trackers
from mtf_imaging.training.observers.tracking.tracker import Tracker
from mtf_imaging.training.step import TrainingStep


def evaluation_interval(own: TrainSettings) -> int:
    """Returns the number of steps between evaluations of held-out cases."""
    return own.eval_every or own.checkpoint_every


def open_observers(
    own: TrainSettings,
    step: TrainingStep,
    layout: Layout,
    texts: dict[str, str],
    masks: Sequence[str],
    monitor: str,
    evaluator: Evaluator | None,
) -> list[Observer]:
    """Returns the observers of process 0, which writes the files of a run, in the order of their calls.

    Args:
      own: the settings of the run.
      step: the training step.
      layout: the layout.
      texts: the texts about the run by file name: its configuration, and "layout.md".
      masks: the masks that the training data have.
      monitor: the measure that selects the best checkpoint.
      evaluator: the observer that evaluates held-out cases; None if there are none.
    """
    folder, rate = Path(own.model_dir), step.optimizer.learning_rate
    losses, scores = folder / "losses.csv", folder / EVAL / "scores.csv"
    shown = {"layout": texts["layout.md"], "config": "\n".join(fenced(texts[CONFIG]))}
    events = TrainingEvents(folder / TRAIN, learning_rate=rate, batch_size=own.batch_size, texts=shown)
    trackers = _open_trackers(own, layout, texts, rate)
    intervals = [own.checkpoint_every, evaluation_interval(own)]
    plots = curves.Progress(
        folder / curves.NAME, losses, scores, every=intervals, num_steps=own.num_steps, best_by=monitor
    )
    observers = [LossLog(losses), events, *trackers, plots]
    if evaluator:
        for tracker in trackers:
            evaluator.add_listener(tracker.scores)
        observers.append(evaluator)
    observers.append(EarlyWarnings(losses, masks, own.num_steps, rate))
    if own.profile_steps is not None:
        observers.append(StepTrace(folder / TRAIN, parse_steps(own.profile_steps, own.num_steps)))
    return observers


def _open_trackers(
    own: TrainSettings, layout: Layout, texts: Mapping[str, str], learning_rate: Callable[[int], float]
) -> list[Tracker]:
    """Returns the trackers of a training run, which connect to their services when the run begins.

    Args:
      own: the training settings.
      layout: the layout.
      texts: the texts about the run, by file name.
      learning_rate: a function that maps the step number to the learning rate.
    """
    folder = Path(own.model_dir)
    name = own.tracking_name or _run_name(folder)
    info = RunInfo(own.tracking_project, name, str(folder), _parameters(own, layout), mtf_imaging.__version__, texts)
    return [
        Tracker(
            SERVICES[tracker](),
            info,
            folder / f"{tracker}.json",
            losses=folder / "losses.csv",
            scores=folder / EVAL / "scores.csv",
            step_values=StepValues(learning_rate, own.batch_size),
            every=own.tracking_every,
            num_steps=own.num_steps,
        )
        for tracker in parse_trackers(own.trackers)
    ]


def _run_name(folder: Path) -> str:
    """Returns the folder name of a run, including the name of its cross-validation.

    >>> _run_name(Path("runs/liver")), _run_name(Path("cv/fold_0"))
    ('liver', 'cv/fold_0')
    """
    folder = folder.resolve() if not folder.name else folder
    return "/".join(folder.parts[-2:]) if folder.name.startswith("fold_") else folder.name


def _parameters(own: TrainSettings, layout: Layout) -> dict[str, str]:
    """Returns the training settings as flat text, such as {"optimizer": "Adam", "optimizer.clip_norm": "1.0"}."""
    listed = [one for cls in (NetworkSettings, BatchSettings, PatchSettings, RunSettings) for one in settings_of(cls)]
    flat = {"layout": str(layout)}
    for one in listed:
        if not one.name.startswith("track"):
            flat |= _flat(one.name, getattr(own, one.name))
    if dataclasses.is_dataclass(own.data):
        flat["data_dir"] = str(own.data.data_dir)
    return flat


def _flat(name: str, value: object) -> dict[str, str]:
    """Returns a value as text; an object as the name of its class and its attributes."""
    if value is None or isinstance(value, bool | int | float | str | Path | list | tuple | dict | type):
        return {name: value if isinstance(value, str) else as_text(value)}
    attributes = {key.lstrip("_"): as_text(one) for key, one in getattr(value, "__dict__", {}).items()}
    return {name: type(value).__name__, **{f"{name}.{key}": text for key, text in attributes.items()}}
