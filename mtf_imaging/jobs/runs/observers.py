"""The observers of a training run, which write its tables, plots, events and traces."""

from collections.abc import Sequence
from pathlib import Path

from mtf_imaging.engine.layout import Layout
from mtf_imaging.evaluation.report import progress as curves
from mtf_imaging.files.run_folder import CONFIG, EVAL, TRAIN
from mtf_imaging.jobs.runs.tracking import open_trackers
from mtf_imaging.settings.training import TrainSettings
from mtf_imaging.training.describe import fenced
from mtf_imaging.training.observers.early_warnings import EarlyWarnings
from mtf_imaging.training.observers.evaluator import Evaluator
from mtf_imaging.training.observers.events import TrainingEvents
from mtf_imaging.training.observers.observer import Observer
from mtf_imaging.training.observers.step_table import LossLog
from mtf_imaging.training.observers.trace import StepTrace, parse_steps
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
    trackers = open_trackers(own, layout, texts, rate)
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
