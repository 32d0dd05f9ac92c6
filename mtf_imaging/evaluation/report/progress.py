"""The picture `progress.png`: the loss and Dice curves of a run, updated during training."""

import csv
import logging
import math
import time
from pathlib import Path

import numpy as np

from mtf_imaging.evaluation.report.colors import LITS_COLORS
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.training.observers.observer import Observer

_logger = logging.getLogger(__name__)
NAME = "progress.png"
_POINTS = 1000  # longer curves are drawn as value ranges
_SHARE = 0.02  # maximum share of the run's time for drawing
_COLORS = {"loss": "#1f4e79", **LITS_COLORS}
_HELD_OUT_LOSS = "#c77700"
_OTHERS = ("#7b4fa3", "#c77700", "#008b8b", "#6b6b6b")  # custom measures


class Progress(Observer):
    """Draws the curves of a run from its tables, including the steps before a resume.

    The picture is drawn in the step after a checkpoint or an evaluation, when the tables have the new row, and at the
    end of the run. Updates that would take more than a fiftieth of the run's time are skipped. If the picture cannot be
    written, the run continues with a warning.

    Args:
      path: path of the picture.
      losses: path of `losses.csv`.
      scores: path of the `scores.csv` of the held-out cases; the file does not have to exist.
      every: the numbers of steps between checkpoints and between evaluations.
      num_steps: the number of steps in the run.
      best_by: the measure of the held-out cases whose highest value is marked.
    """

    def __init__(self, path, losses, scores, *, every, num_steps, best_by):
        self._path, self._losses, self._scores, self._every = path, losses, scores, every
        self._num_steps, self._best_by = num_steps, best_by
        self._next = 0.0

    def after(self, step, values, cases, seconds, waited):
        if any(step % every == 0 for every in self._every) and step and time.monotonic() >= self._next:
            self._draw()

    def close(self):
        self._draw()  # adds the evaluation of the last step

    def _draw(self):
        began = time.monotonic()
        train, held_out = read_table(self._losses), read_table(self._scores)
        if not len(train.get("step", ())):
            return
        try:
            draw(self._path, train, held_out, num_steps=self._num_steps, best_by=self._best_by)
        except OSError as error:
            _logger.warning("%s: the picture could not be written: %s", self._path, error)
        ended = time.monotonic()
        self._next = ended + (ended - began) / _SHARE


def read_table(path: str | Path) -> dict[str, np.ndarray]:
    """Reads the numeric columns of a CSV file, float64 `[rows]` by name; {} if the file does not exist."""
    if not Path(path).is_file():
        return {}
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        rows = list(csv.reader(file))
    complete = [row for row in rows[1:] if len(row) == len(rows[0])]  # the last row may still be incomplete
    numbers = [(at, name) for at, name in enumerate(rows[0] if rows else ()) if name != "cases"]
    return {name: np.array([float(row[at]) for row in complete]) for at, name in numbers}


def draw(path, train, held_out, *, num_steps, best_by) -> None:
    """Draws the loss and the measures over steps; an existing picture is replaced atomically.

    Each training curve appears twice: in a pale color with its own values, or with their range in a long run, and as a
    running mean over a fiftieth of the steps. Measures of held-out cases are points, and the best one is marked.

    Args:
      path: path of the picture.
      train: columns by name, `[rows]`: "step", "loss", and the measures of training.
      held_out: columns by name, `[rows]`: "step", the measures of held-out cases and, if computed, "loss"; {} if there
        is no evaluation.
      num_steps: the number of steps in the whole run, for the title.
      best_by: the measure of held-out cases whose highest value is marked.
    """
    # Imported here, because the import takes longer than a small step, and the first steps draw nothing.
    from mtf_imaging.files.figures import Figure, FigureCanvasAgg, MaxNLocator

    figure = Figure(figsize=(11, 4.6), dpi=110, layout="constrained")
    done = int(train["step"][-1]) + 1
    figure.suptitle(f"step {done:,} of {num_steps:,}", fontsize=11)
    names = [name for name in dict.fromkeys([*train, *held_out]) if name not in ("step", "loss")]
    panels = figure.subplots(1, 2 if names else 1, squeeze=False)[0]
    _curve(panels[0], train["step"] + 1, train["loss"], _COLORS["loss"], "loss, training")
    losses = train["loss"]
    if "loss" in held_out:
        panels[0].plot(
            held_out["step"], held_out["loss"], "o--", color=_HELD_OUT_LOSS, ms=4, lw=1, label="loss, held out"
        )
        _legend(panels[0])
        losses = np.concatenate([losses, held_out["loss"]])
    panels[0].set_title("loss", fontsize=10)
    finite = losses[np.isfinite(losses)]
    if finite.size and finite.min() > 0 and finite.max() > 20 * finite.min():
        panels[0].set_yscale("log")
    if names:
        _measures(panels[1], train, held_out, names, best_by)
    for axes in panels:
        axes.set_xlabel("steps", fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlim(0, max(done, 2))
        axes.grid(color="#e6e6e6", linewidth=0.8)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    with atomic_path(path) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)


def _measures(axes, train, held_out, names, best_by):
    others = iter(_OTHERS * len(names))
    for name in names:
        color = _COLORS.get(name) or next(others)
        if name in train:
            _curve(axes, train["step"] + 1, train[name], color, f"{name}, training")
        if name in held_out:
            label = f"{name}, held out"
            axes.plot(held_out["step"], held_out[name], "o--", color=color, ms=4, lw=1, label=label, clip_on=False)
    scores = held_out.get(best_by, np.array([]))
    if np.isfinite(scores).any():
        at = int(np.nanargmax(scores))
        step, score = int(held_out["step"][at]), scores[at]
        label = f"best {best_by}: {score:.3f} at {step:,}"
        axes.plot(step, score, "*", color="#f4b400", mec="black", mew=0.6, ms=13, label=label, clip_on=False, zorder=5)
    values = np.concatenate([table[name] for table in (train, held_out) for name in names if name in table])
    values = values[np.isfinite(values)]
    is_share = values.size and values.min() >= 0 and values.max() <= 1
    if is_share:
        axes.set_ylim(0, 1)
    axes.set_title("Dice" if is_share and set(names) <= set(_COLORS) else "measures", fontsize=10)
    _legend(axes)


def _legend(axes):
    """Draws the legend below the axes, so that it does not hide any curve."""
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3, frameon=False)


def _curve(axes, steps, values, color, label):
    smooth = running_mean(values, max(1, math.ceil(len(values) / 50)))
    if len(values) == 1:
        axes.plot(steps, values, "o", color=color, ms=4, label=label)
        return
    if len(values) <= _POINTS:
        axes.plot(steps, values, color=color, alpha=0.25, linewidth=0.8)
    else:  # a line through all points would take seconds without showing more
        starts = np.linspace(0, len(values), _POINTS // 2, endpoint=False).astype(int)
        low, high = (bound.reduceat(values, starts) for bound in (np.fmin, np.fmax))
        axes.fill_between(steps[starts], low, high, color=color, alpha=0.25, linewidth=0)
        steps, smooth = steps[starts], smooth[starts]
    axes.plot(steps, smooth, color=color, linewidth=1.6, label=label)


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Returns the mean of the finite values in a window of `width` values; windows are shorter at the ends.

    >>> running_mean(np.array([0.0, 3.0, 6.0, 9.0]), 3)
    array([1.5, 3. , 6. , 7.5])
    """
    finite = np.isfinite(values)
    sums, counts = (np.concatenate([[0.0], np.cumsum(part)]) for part in (np.where(finite, values, 0.0), finite))
    at = np.arange(len(values))
    low, high = np.maximum(at - (width - 1) // 2, 0), np.minimum(at + width // 2 + 1, len(values))
    count = counts[high] - counts[low]
    return np.where(count > 0, (sums[high] - sums[low]) / np.maximum(count, 1), np.nan)
