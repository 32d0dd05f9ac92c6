"""The results of the context study as a CSV file, tables and a figure."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.context_study.course import Point
from benchmarks.tables import markdown, mean_and_range, read_rows, write_rows
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.figures import Figure, FigureCanvasAgg

TABLE, FIGURE = "context.csv", "context.png"
GOAL = 0.8  # the Dice to which the table gives the time
_COLORS = ("#cc3311", "#004488", "#4477aa", "#77aadd", "#ee9933", "#009988", "#aa3377")
_MIB = 2**20
_BUDGETS = {"steps": "at_steps", "cpu": "at_budget"}
_COLUMNS = ("cases", "contender", "title", "seed", "budget", "step", "cpu_seconds", "mask", "dice")
_COSTS = ("planned_bytes", "peak_bytes", "seconds_per_case")


@dataclass(frozen=True)
class Run:
    """The course of one training.

    Attributes:
      cases: the name of the cases.
      contender, title: the name and the description of the contender.
      seed: the seed of the training run.
      course: all scores in the course of the training run.
      at_steps, at_budget: the scores when the step budget and the CPU time budget are spent.
      planned_bytes: memory of a step on the device that needs the most, as estimated by `explain`.
      seconds_per_case: duration of a prediction.
    """

    cases: str
    contender: str
    title: str
    seed: int
    course: tuple[Point, ...]
    at_steps: Point
    at_budget: Point
    planned_bytes: int
    seconds_per_case: float

    def seconds_to(self, goal: float) -> float | None:
        """Returns the CPU seconds until this mean Dice is first reached, or None."""
        return next((point.cpu_seconds for point in self.course if point.mean >= goal), None)


def write(path: Path, results: Iterable[Mapping[str, Any]]) -> None:
    """Writes a row per score and mask.

    Args:
      path: the CSV file.
      results: the results of `run_trainings`, with the names of the cases and of the contender, and its title.
    """
    rows = []
    for result in results:
        for point in result["course"]:
            budget = " and ".join(name for name, end in _BUDGETS.items() if point == result[end])
            at = {"budget": budget, "step": point["step"], "cpu_seconds": f"{point['cpu_seconds']:.2f}"}
            for mask, dice in point["dice"].items():
                row = result | at | {"mask": mask, "dice": f"{dice:.4f}"}
                rows.append({name: row[name] for name in (*_COLUMNS, *_COSTS)})
    write_rows(path, (*_COLUMNS, *_COSTS), rows)


def read(path: Path) -> list[Run]:
    """Returns the runs of a `context.csv`."""
    runs = []
    by_run = itertools.groupby(read_rows(path), key=lambda row: (row["cases"], row["contender"], row["seed"]))
    for (cases, contender, seed), rows in by_run:
        course, ends = [], {}
        for _, point in itertools.groupby(rows, key=lambda row: row["step"]):
            masks = list(point)
            row, dice = masks[0], {row["mask"]: float(row["dice"]) for row in masks}
            course.append(Point(int(row["step"]), float(row["cpu_seconds"]), dice))
            ends |= {_BUDGETS[name]: course[-1] for name in row["budget"].split(" and ") if name}
        costs = {"planned_bytes": int(row["planned_bytes"]), "seconds_per_case": float(row["seconds_per_case"])}
        runs.append(Run(cases, contender, row["title"], int(seed), tuple(course), **ends, **costs))
    return runs


def text(runs: Sequence[Run]) -> str:
    """Returns a Markdown table for each kind of cases: means over seeds, with the range in parentheses."""
    return "\n\n".join(_table(cases, [run for run in runs if run.cases == cases]) for cases in _unique(runs, "cases"))


def _table(cases: str, runs: Sequence[Run]) -> str:
    masks = list(runs[0].at_steps.dice)
    steps = runs[0].at_steps.step
    head = ["contender", "seeds", f"Dice after {steps} steps", "Dice in equal CPU time", *masks, "steps"]
    head += [f"CPU s to {GOAL:g}", "memory of a step", "s per case"]
    rows = []
    for name in _unique(runs, "contender"):
        own = [run for run in runs if run.contender == name]
        ends = [run.at_steps for run in own], [run.at_budget for run in own]
        cells = [own[0].title, str(len(own)), *(mean_and_range([point.mean for point in points]) for points in ends)]
        cells += [f"{fmean(run.at_budget.dice[mask] for run in own):.3f}" for mask in masks]
        cells += [f"{fmean(run.at_budget.step for run in own):.0f}", _times([run.seconds_to(GOAL) for run in own])]
        cells += [f"{max(run.planned_bytes for run in own) / _MIB:.0f} MiB"]
        rows.append([*cells, f"{fmean(run.seconds_per_case for run in own):.2f}"])
    seconds = fmean(run.at_budget.cpu_seconds for run in runs)
    return f"{cases}: equal CPU time is {seconds:.0f} s\n\n{markdown(head, rows)}"


def by_seed(runs: Sequence[Run], contender: str) -> str:
    """Returns a Markdown table of the Dice of one contender after the steps, by seed; values below `GOAL` are bold."""
    own = [run for run in runs if run.contender == contender]
    seeds = sorted({run.seed for run in own})
    rows = []
    for cases in _unique(own, "cases"):
        dice = {run.seed: run.at_steps.mean for run in own if run.cases == cases}
        marks = {seed: "**" * (value < GOAL) for seed, value in dice.items()}
        rows.append([cases, *(f"{marks[seed]}{dice[seed]:.3f}{marks[seed]}" if seed in dice else "" for seed in seeds)])
    return markdown(["cases", *(f"seed {seed}" for seed in seeds)], rows)


def _times(seconds: Sequence[float | None]) -> str:
    """Formats the mean of the known times, with their number unless all are known."""
    reached = [value for value in seconds if value is not None]
    if not reached:
        return "never"
    some = f" ({len(reached)} of {len(seconds)} seeds)" if len(reached) < len(seconds) else ""
    return f"{fmean(reached):.0f}{some}"


def _unique(runs: Sequence[Run], name: str) -> list[str]:
    return list(dict.fromkeys(getattr(run, name) for run in runs))


def draw(path: Path, runs: Sequence[Run]) -> None:
    """Draws mean Dice against CPU time, one panel per kind of cases: the mean and range over seeds."""
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
    with atomic_path(path) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)


def _dice_at(run: Run, seconds: np.ndarray) -> np.ndarray:
    """Returns the mean Dice at CPU times, interpolated between the scores of a run."""
    return np.interp(seconds, [point.cpu_seconds for point in run.course], [point.mean for point in run.course])
