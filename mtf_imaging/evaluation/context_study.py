"""Tables and plots of whole volumes, patches and lower resolutions at equal steps and at equal CPU time."""

import csv
import io
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.evaluation.resolution_study import mean_and_range
from mtf_imaging.evaluation.scoring.overlap import mean
from mtf_imaging.files.atomic import atomic_path, write_bytes
from mtf_imaging.files.figures import Figure, FigureCanvasAgg

GOAL = 0.8  # the Dice to which the table gives the time
_COLORS = ("#cc3311", "#004488", "#4477aa", "#77aadd", "#ee9933", "#009988", "#aa3377")
_MIB = 2**20
_STEPS, _CPU = "steps", "cpu"  # the budgets
_COSTS = ("planned_bytes", "peak_bytes", "seconds_per_case")


@dataclass(frozen=True)
class Scored:
    """The scores of held-out cases after some steps.

    Attributes:
      step: number of steps.
      cpu_seconds: CPU seconds of these steps.
      dice: mean Dice over the cases, by mask.
    """

    step: int
    cpu_seconds: float
    dice: Mapping[str, float]

    @property
    def mean(self) -> float:
        """The mean Dice of all masks."""
        return mean(self.dice.values())


@dataclass(frozen=True)
class Run:
    """The course of one training.

    Attributes:
      cases: the name of the cases.
      contender, title: the name and the description of the contender.
      seed: the seed of the training run.
      at_steps, at_budget: the scores when the step budget and the CPU time budget are spent.
      course: all scores in the course of the training run.
      planned_bytes: memory of a step on the device that needs the most, as estimated by `explain`.
      peak_bytes: peak memory of the process during the first steps.
      seconds_per_case: duration of a prediction.
    """

    cases: str
    contender: str
    title: str
    seed: int
    at_steps: Scored
    at_budget: Scored
    course: tuple[Scored, ...]
    planned_bytes: int
    peak_bytes: int
    seconds_per_case: float

    def seconds_to(self, goal: float) -> float | None:
        """Returns the CPU seconds until this mean Dice is first reached, or None."""
        return next((point.cpu_seconds for point in self.course if point.mean >= goal), None)


def read_run(cases: str, contender: str, title: str, result: Mapping[str, Any]) -> Run:
    """Reads the course that a training has stored.

    Args:
      cases: the name of the cases.
      contender: the name of the contender.
      title: its description.
      result: the contents of the result.
    """
    costs = {name: result[name] for name in ("planned_bytes", "peak_bytes", "seconds_per_case")}
    points = {name: Scored(**result[name]) for name in ("at_steps", "at_budget")}
    course = tuple(Scored(**point) for point in result["course"])
    return Run(cases, contender, title, result["seed"], course=course, **points, **costs)


def read_study(path: str | Path) -> list[Run]:
    """Reads the runs of a `context.csv`."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    runs = []
    for _, own in itertools.groupby(rows, key=lambda row: (row["cases"], row["contender"], row["seed"])):
        first, course, ends = None, [], {}
        for _, point in itertools.groupby(own, key=lambda row: row["step"]):
            masks = list(point)
            first = first or masks[0]
            dice = {row["mask"]: float(row["dice"]) for row in masks}
            course.append(Scored(int(masks[0]["step"]), float(masks[0]["cpu_seconds"]), dice))
            ends |= dict.fromkeys(masks[0]["budget"].split(" and "), course[-1])
        assert first is not None, "a group has a row"
        costs = int(first["planned_bytes"]), int(first["peak_bytes"]), float(first["seconds_per_case"])
        name = first["cases"], first["contender"], first["title"], int(first["seed"])
        runs.append(Run(*name, ends[_STEPS], ends[_CPU], tuple(course), *costs))
    return runs


def write_study(output_dir: str | Path, runs: Sequence[Run]) -> None:
    """Writes `context.csv` with one row per score, `context.md` and `context.png`, each replaced atomically."""
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(["cases", "contender", "title", "seed", "budget", "step", "cpu_seconds", "mask", "dice", *_COSTS])
    for run in runs:
        costs = [getattr(run, name) for name in _COSTS]
        for point in run.course:
            ends = {_STEPS: run.at_steps, _CPU: run.at_budget}
            budget = " and ".join(name for name, end in ends.items() if point == end)
            for mask, dice in point.dice.items():
                own = [run.cases, run.contender, run.title, run.seed, budget, point.step, f"{point.cpu_seconds:.2f}"]
                writer.writerow([*own, mask, f"{dice:.4f}", *costs])
    folder = Path(output_dir)
    write_bytes(folder / "context.csv", rows.getvalue().encode())
    write_bytes(folder / "context.md", (study_text(runs) + "\n").encode())
    with atomic_path(folder / "context.png") as temporary:
        _plot(runs).print_png(temporary)


def study_text(runs: Sequence[Run]) -> str:
    """Returns a Markdown table for each kind of cases: means over seeds, with the range in parentheses."""
    return "\n\n".join(_table(cases, [run for run in runs if run.cases == cases]) for cases in _unique(runs, "cases"))


def _table(cases: str, runs: Sequence[Run]) -> str:
    masks = list(runs[0].at_steps.dice)
    steps = runs[0].at_steps.step
    head = ["contender", f"Dice after {steps} steps", "Dice in equal CPU time", *masks, "steps", f"CPU s to {GOAL:g}"]
    lines = [[*head, "memory of a step", "s per case"]]
    lines.append(["---"] * len(lines[0]))
    for name in _unique(runs, "contender"):
        own = [run for run in runs if run.contender == name]
        cells = [own[0].title, *(mean_and_range([run_at.mean for run_at in ends]) for ends in _ends(own))]
        cells += [f"{mean(run.at_budget.dice[mask] for run in own):.3f}" for mask in masks]
        cells += [f"{mean(run.at_budget.step for run in own):.0f}", _times([run.seconds_to(GOAL) for run in own])]
        cells += [f"{max(run.planned_bytes for run in own) / _MIB:.0f} MiB"]
        lines.append([*cells, f"{mean(run.seconds_per_case for run in own):.2f}"])
    seconds = mean(run.at_budget.cpu_seconds for run in runs)
    seeds = len({run.seed for run in runs})
    text = f"{cases}: {seeds} seed{'s' * (seeds > 1)}; equal CPU time is {seconds:.0f} s"
    return text + "\n\n" + "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _ends(runs: Sequence[Run]) -> list[list[Scored]]:
    return [[run.at_steps for run in runs], [run.at_budget for run in runs]]


def _times(seconds: Sequence[float | None]) -> str:
    """Formats the mean of the known times.

    >>> _times([10.0, 20.0]), _times([10.0, None]), _times([None])
    ('15', '10 (1 of 2 seeds)', 'never')
    """
    reached = [value for value in seconds if value is not None]
    if not reached:
        return "never"
    some = f" ({len(reached)} of {len(seconds)} seeds)" if len(reached) < len(seconds) else ""
    return f"{mean(reached):.0f}{some}"


def _unique(runs: Sequence[Run], name: str) -> list[str]:
    return list(dict.fromkeys(getattr(run, name) for run in runs))


def _plot(runs: Sequence[Run]) -> FigureCanvasAgg:
    """Plots mean Dice against CPU time, one panel per kind of cases: the mean and range over seeds."""
    kinds, contenders = _unique(runs, "cases"), _unique(runs, "contender")
    figure = Figure(figsize=(1.5 + 3.6 * len(kinds), 4.2), dpi=110, layout="constrained")
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, cases in zip(panels, kinds, strict=True):
        for name, color in zip(contenders, _COLORS, strict=False):
            own = [run for run in runs if (run.cases, run.contender) == (cases, name)]
            if not own:
                continue
            first = max(run.course[0].cpu_seconds for run in own)
            seconds = np.linspace(first, max(first, min(run.course[-1].cpu_seconds for run in own)), 50)
            dice = np.array([_dice_at(run, seconds) for run in own])
            axes.plot(seconds, dice.mean(axis=0), color=color, label=own[0].title)
            axes.fill_between(seconds, dice.min(axis=0), dice.max(axis=0), color=color, alpha=0.15, linewidth=0)
        axes.set_title(cases, fontsize=10)
        axes.set_xlabel("CPU seconds of training")
        axes.set_ylim(0, 1)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("mean Dice of held-out cases")
    handles = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(kinds), 3), fontsize=8)
    return FigureCanvasAgg(figure)


def _dice_at(run: Run, seconds: np.ndarray) -> np.ndarray:
    """Returns the mean Dice at CPU times, interpolated between the scores of a run."""
    return np.interp(seconds, [point.cpu_seconds for point in run.course], [point.mean for point in run.course])
