"""Tables and plots of the Dice of one job at several resolutions."""

import csv
import io
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mtf_imaging.evaluation.scoring.lesions import SIZE_BINS
from mtf_imaging.evaluation.scoring.overlap import mean
from mtf_imaging.files.atomic import atomic_path, write_bytes
from mtf_imaging.files.figures import Figure, FigureCanvasAgg

LIVER, LESION = "liver", "lesion"
MEASURES = (LIVER, LESION, *(f"lesions {size}" for size in SIZE_BINS))
_COLORS = ("#4477aa", "#cc3311", "#ee7733", "#009988", "#aa3377")


@dataclass(frozen=True)
class Run:
    """The scores of one run.

    Attributes:
      resolution: voxels along each axis.
      seed: the seed of the training run.
      dice: Dice by the names in `MEASURES`. The liver and lesion values compare whole masks and are means over
        cases. The value for a lesion size is the mean over reference lesions of that size, with 0 for each missed
        lesion, and None if the references have no lesion of that size.
      count: the number of reference lesions of each size, by name.
    """

    resolution: int
    seed: int
    dice: dict[str, float | None]
    count: dict[str, int]


def read_run(resolution: int, seed: int, metrics: str | Path) -> Run:
    """Reads the scores of a run from the `metrics.json` that `evaluate` wrote.

    Args:
      resolution: voxels along each axis.
      seed: the seed of the training run.
      metrics: the path of `metrics.json`.
    """
    contents = json.loads(Path(metrics).read_text("utf-8"))
    cases = contents["cases"].values()
    lesions = [lesion for case in cases for lesion in case["lesions"] if lesion["reference_voxels"]]
    dice, count = {name: contents[name]["dice_per_case"] for name in (LIVER, LESION)}, {}
    for size, (low, high) in SIZE_BINS.items():
        these = [lesion["dice"] for lesion in lesions if low <= lesion["diameter_mm"] < high]
        dice[f"lesions {size}"] = mean(these) if these else None
        count[f"lesions {size}"] = len(these)
    return Run(resolution, seed, dice, count)


def read_study(path: str | Path) -> list[Run]:
    """Reads the runs of a `study.csv`."""
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        rows = list(csv.DictReader(file))
    counted = [f"lesions {size}" for size in SIZE_BINS]
    return [
        Run(
            int(row["resolution"]),
            int(row["seed"]),
            {name: float(row[name]) if row[name] else None for name in MEASURES},
            {name: int(row[f"number of {name}"]) for name in counted},
        )
        for row in rows
    ]


def rises(runs: Sequence[Run], measure: str) -> bool:
    """Returns whether a measure rises with the resolution by more than the spread of the seeds.

    At each resolution, the worst seed must score higher than the best seed at the resolution below.
    """
    by_resolution = [dice_values(runs, resolution, measure) for resolution in resolutions(runs)]
    pairs = itertools.pairwise(by_resolution)
    return all(low and high and max(low) < min(high) for low, high in pairs)


def study_table(runs: Sequence[Run]) -> str:
    """Returns a plain-text table with one row per resolution: the mean and range over seeds."""
    lines = [f"{'Dice':>8}" + "".join(f"{name:>26}" for name in MEASURES)]
    for resolution in resolutions(runs):
        cells = (mean_and_range(dice_values(runs, resolution, name)) for name in MEASURES)
        lines.append(f"{f'{resolution}^3':>8}" + "".join(f"{cell:>26}" for cell in cells))
    if len(resolutions(runs)) > 1:
        shown = ("yes" if rises(runs, name) else "no" for name in MEASURES)
        lines.append(f"{'rises':>8}" + "".join(f"{text:>26}" for text in shown))
        lines.append("rises: every seed scores higher than every seed at the resolution below.")
    return "\n".join(lines)


def write_study(output_dir: str | Path, runs: Sequence[Run], title: str) -> None:
    """Writes `study.csv`, with one row per run, and `study.png`; each file is replaced atomically."""
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(["resolution", "seed", *MEASURES, *(f"number of {name}" for name in runs[0].count)])
    for run in runs:
        writer.writerow([run.resolution, run.seed, *(run.dice[name] for name in MEASURES), *run.count.values()])
    write_bytes(Path(output_dir) / "study.csv", rows.getvalue().encode())
    with atomic_path(Path(output_dir) / "study.png") as temporary:
        _plot(runs, title).print_png(temporary)


def resolutions(runs: Sequence[Run]) -> list[int]:
    """Returns the resolutions of the runs, the coarsest first."""
    return sorted({run.resolution for run in runs})


def dice_values(runs: Sequence[Run], resolution: int, measure: str) -> list[float]:
    """Returns the Dice of each seed at a resolution, without undefined values."""
    values = (run.dice[measure] for run in runs if run.resolution == resolution)
    return [dice for dice in values if dice is not None]


def mean_and_range(values: Sequence[float]) -> str:
    """Formats the mean and range over seeds.

    >>> mean_and_range([0.25, 0.5, 0.75])
    '0.500 (0.250 to 0.750)'
    """
    if not values:
        return "-"
    spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
    return f"{mean(values):.3f}{spread}"


def _plot(runs, title) -> FigureCanvasAgg:
    """Draws whole masks on the left and lesions by size on the right.

    Lines connect the means over seeds; each seed is a dot.
    """
    figure = Figure(figsize=(9, 4.8), dpi=110, layout="constrained")
    figure.suptitle(title, fontsize=11)
    sizes = resolutions(runs)
    panels = (("whole masks, mean over cases", MEASURES[:2]), ("single lesions, 0 if missed", MEASURES[2:]))
    colors = iter(_COLORS)
    for axes, (name, measures) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
        for measure in measures:
            points = [(r, dice_values(runs, r, measure)) for r in sizes]
            points = [(r, values) for r, values in points if values]
            if not points:
                continue
            color, count = next(colors), runs[0].count.get(measure)
            label = f"{measure} (n = {count})" if count is not None else measure
            axes.plot([r for r, _ in points], [mean(values) for _, values in points], color=color, label=label)
            for r, values in points:
                axes.plot([r] * len(values), values, "o", color=color, markersize=4)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [f"{r}³" for r in sizes])
        axes.minorticks_off()
        axes.set_ylim(0, 1)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("voxels")
        axes.grid(alpha=0.3)
        # Below the axes, so that the legend does not hide any curve.
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    figure.axes[0].set_ylabel("Dice")
    return FigureCanvasAgg(figure)
