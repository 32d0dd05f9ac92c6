"""The results of all runs as CSV files, a table and a figure."""

import csv
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.learning.contenders import ALL
from benchmarks.tables import markdown, mean_and_range, read_rows
from mtf_imaging.files.atomic import atomic_path

RESULT = "result.json"
RESULTS, SNAPSHOTS, CASES, FIGURE = "learning.csv", "learning_snapshots.csv", "learning_cases.csv", "learning.png"
SNAPSHOT_VALUES = ("step", "cpu_seconds", "liver", "lesion")
BASELINE = "documented"
_COLUMNS = ("contender", "seed", "steps", "cpu_seconds", "liver", "lesion", "liver_0.90_s", "lesion_0.50_s")
_GOALS = {"liver": 0.9, "lesion": 0.5}


def write(output_dir: Path) -> None:
    """Collects the results of all finished runs in a folder, and draws them."""
    order = {name: number for number, name in enumerate(ALL)}
    runs = [json.loads(path.read_text()) for path in output_dir.glob(f"*/{RESULT}")]
    runs.sort(key=lambda run: (order.get(run["contender"], len(order)), run["seed"]))
    results, snapshots, cases = [], [], []
    for run in runs:
        times = {f"{name}_{goal:.2f}_s": time_to(run["snapshots"], name, goal) for name, goal in _GOALS.items()}
        results.append([(run | times)[name] for name in _COLUMNS])
        key = [run["contender"], run["seed"]]
        snapshots += [[*key, int(step), *values] for step, *values in run["snapshots"]]
        cases += [[*key, case, dice["liver"], dice["lesion"]] for case, dice in run["cases"].items()]
    _write(output_dir / RESULTS, _COLUMNS, results)
    _write(output_dir / SNAPSHOTS, ("contender", "seed", *SNAPSHOT_VALUES), snapshots)
    _write(output_dir / CASES, ("contender", "seed", "case", "liver", "lesion"), cases)
    draw(output_dir / SNAPSHOTS, output_dir / FIGURE)


def time_to(rows: Iterable[Sequence[float]], name: str, goal: float) -> float | None:
    """Returns the CPU seconds of the first snapshot whose Dice reaches a goal; None if no snapshot reaches it.

    Args:
      rows: (step, CPU seconds, Dice of the liver, Dice of the lesions) of each snapshot.
      name: "liver" or "lesion".
      goal: the Dice.
    """
    column = SNAPSHOT_VALUES.index(name)
    return next((row[1] for row in rows if row[column] >= goal), None)


def text(path: Path) -> str:
    """Returns a Markdown table: the mean over seeds, with the range in parentheses.

    The column "difference" compares the lesion Dice with the documented job's run of the same seed.
    """
    by_name: dict[str, list[dict[str, str]]] = {}
    for row in read_rows(path):
        by_name.setdefault(row["contender"], []).append(row)
    baseline = {row["seed"]: float(row["lesion"]) for row in by_name.get(BASELINE, [])}
    head = ["contender", "seeds", "steps", "CPU s", "lesion", "difference", "liver", "s to lesion 0.50"]
    head += ["s to liver 0.90"]
    lines = []
    for name, rows in by_name.items():
        title = ALL[name].title if name in ALL else name
        seconds = statistics.mean(float(row["cpu_seconds"]) for row in rows)
        pairs = [float(row["lesion"]) - baseline[row["seed"]] for row in rows if row["seed"] in baseline]
        lesion, liver = (mean_and_range([float(row[mask]) for row in rows]) for mask in ("lesion", "liver"))
        cells = [f"`{name}`: {title}", str(len(rows)), rows[0]["steps"], f"{seconds:.0f}", lesion]
        cells += [mean_and_range(pairs) if pairs and name != BASELINE else "", liver]
        cells += [_times([row[column] for row in rows]) for column in ("lesion_0.50_s", "liver_0.90_s")]
        lines.append(cells)
    return markdown(head, lines)


def by_case(path: Path) -> str:
    """Returns a Markdown table of the lesion and liver Dice of each case, the mean over seeds."""
    rows = read_rows(path)
    cases = list(dict.fromkeys(row["case"] for row in rows))
    lines = []
    for name in dict.fromkeys(row["contender"] for row in rows):
        cells = [f"`{name}`"]
        for case in cases:
            own = [row for row in rows if row["contender"] == name and row["case"] == case]
            lesion, liver = (statistics.mean(float(row[mask]) for row in own) for mask in ("lesion", "liver"))
            cells.append(f"{lesion:.3f} / {liver:.3f}")
        lines.append(cells)
    return markdown(["contender", *(f"case {case}" for case in cases)], lines)


def _times(values: Sequence[str]) -> str:
    """Returns the mean of the known times in seconds, and the number of runs that did not reach the goal."""
    reached = [float(value) for value in values if value]
    missed = len(values) - len(reached)
    mean = f"{statistics.mean(reached):.0f}" if reached else "-"
    return f"{mean}; {missed} of {len(values)} never" if missed else mean


def draw(
    path: Path, picture: Path, names: Sequence[str] = (BASELINE, "zero_biases", "keras_whole", "keras_patches")
) -> None:
    """Plots held-out Dice against CPU seconds: the mean and range over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = read_rows(path)
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharex=True)
    for axis, mask in zip(axes, ("lesion", "liver"), strict=True):
        for name in names:
            by_step: dict[int, list[dict[str, str]]] = {}
            for row in rows:
                if row["contender"] == name:
                    by_step.setdefault(int(row["step"]), []).append(row)
            if not by_step:
                continue
            points = [by_step[step] for step in sorted(by_step)]
            seconds = [statistics.mean(float(row["cpu_seconds"]) for row in point) for point in points]
            dice = [[float(row[mask]) for row in point] for point in points]
            (line,) = axis.plot(seconds, [statistics.mean(values) for values in dice], label=name)
            axis.fill_between(seconds, list(map(min, dice)), list(map(max, dice)), color=line.get_color(), alpha=0.15)
        axis.set(title=f"held-out Dice: {mask}", xlabel="CPU seconds", ylim=(0, 1))
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, dpi=120)
    pyplot.close(figure)


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with atomic_path(path) as temporary, open(temporary, "w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
