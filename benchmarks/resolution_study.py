"""Trains one network at several resolutions on the same cases, and compares the Dice scores of held-out cases.

    python -m benchmarks.resolution_study --output_dir study    # 50 minutes on 2 cores
    python -m benchmarks.resolution_study --output_dir study_large --kind large_lesions --resolutions 16,32,48,64,96
    python -m benchmarks.resolution_study --output_dir study --input_dir cases --gin_file unet3d_demo --resolutions 64

The cases are phantoms with many small lesions, or with large ones, unless --input_dir names a folder of LiTS cases.
Every fourth case is held out. Each run has a folder RESOLUTION_seed_SEED with everything that `train` and `evaluate`
write. The scores go to study.csv and study.png. The same command continues after an interruption and keeps finished
runs, so it can also add resolutions and seeds.
"""

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.commands import run_command
from benchmarks.flags import whole_numbers
from benchmarks.tables import markdown, mean_and_range, read_rows, write_rows
from mtf_imaging.data.cases.hold_out import hold_out
from mtf_imaging.evaluation.volume_scores.files import has_results
from mtf_imaging.evaluation.volume_scores.lesions import SIZE_BINS
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.figures import Figure, FigureCanvasAgg

JOB = str(Path(__file__).with_suffix(".gin"))
TABLE, FIGURE = "study.csv", "study.png"
MASKS = ("liver", "lesion")
MEASURES = (*MASKS, *(f"lesions {size}" for size in SIZE_BINS))
_COLORS = ("#4477aa", "#cc3311", "#ee7733", "#009988", "#aa3377")

# A row of the table: the resolution and the seed; the Dice scores by the names in `MEASURES`; and the number of
# reference lesions of each size. The scores of the liver and the lesions compare whole masks and are means over cases.
# The score for a lesion size is the mean over reference lesions of that size, with 0 for each missed lesion, and None
# if the references have no lesion of that size.
Run = Mapping[str, Any]


def read_scores(metrics: Path) -> dict[str, Any]:
    """Returns the scores and numbers of a `Run` from the `metrics.json` that `evaluate` wrote."""
    contents = json.loads(metrics.read_text("utf-8"))
    cases = contents["cases"].values()
    lesions = [lesion for case in cases for lesion in case["lesions"] if lesion["reference_voxels"]]
    dice, count = {name: contents[name]["dice_per_case"] for name in MASKS}, {}
    for size, (low, high) in SIZE_BINS.items():
        these = [lesion["dice"] for lesion in lesions if low <= lesion["diameter_mm"] < high]
        dice[f"lesions {size}"] = statistics.fmean(these) if these else None
        count[f"number of lesions {size}"] = len(these)
    return dice | count


def read(path: Path) -> list[Run]:
    """Returns the runs of a `study.csv`."""
    return [{name: json.loads(value) if value else None for name, value in row.items()} for row in read_rows(path)]


def resolutions(runs: Sequence[Run]) -> list[int]:
    """Returns the resolutions of the runs, the coarsest first."""
    return sorted({run["resolution"] for run in runs})


def dice_values(runs: Sequence[Run], resolution: int, measure: str) -> list[float]:
    """Returns the Dice of each seed at a resolution, without undefined values."""
    values = (run[measure] for run in runs if run["resolution"] == resolution)
    return [dice for dice in values if dice is not None]


def text(runs: Sequence[Run]) -> str:
    """Returns a Markdown table with one row for each resolution: the mean and range over seeds."""
    rows = [
        [f"{size}^3", *(mean_and_range(dice_values(runs, size, measure)) for measure in MEASURES)]
        for size in resolutions(runs)
    ]
    return markdown(["Dice", *MEASURES], rows)


def draw(path: Path, runs: Sequence[Run], title: str) -> None:
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
            points = [(size, values) for size in sizes if (values := dice_values(runs, size, measure))]
            if not points:
                continue
            color, count = next(colors), runs[0].get(f"number of {measure}")
            label = f"{measure} (n = {count})" if count is not None else measure
            means = [statistics.fmean(values) for _, values in points]
            axes.plot([size for size, _ in points], means, color=color, label=label)
            for size, values in points:
                axes.plot([size] * len(values), values, "o", color=color, markersize=4)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [f"{size}³" for size in sizes])
        axes.minorticks_off()
        axes.set_ylim(0, 1)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("voxels")
        axes.grid(alpha=0.3)
        # Below the axes, so that the legend does not hide any curve.
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    figure.axes[0].set_ylabel("Dice")
    with atomic_path(path) as temporary:
        FigureCanvasAgg(figure).print_png(temporary)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for runs and results")
    parser.add_argument("--input_dir", type=Path, help="folder of LiTS cases; default: phantoms")
    parser.add_argument("--num_cases", type=int, default=24, help="number of phantoms (default: 24)")
    parser.add_argument(
        "--kind",
        choices=("small_lesions", "large_lesions"),
        default="small_lesions",
        help="kind of phantoms (default: small_lesions)",
    )
    parser.add_argument(
        "--resolutions", type=whole_numbers, default="32,64,96", help="voxels along each axis (%(default)s)"
    )
    parser.add_argument("--seeds", type=whole_numbers, default="1,2,3", help="of the training runs (%(default)s)")
    parser.add_argument("--gin_file", action="append", help="gin file of the job; may be repeated (default: ours)")
    parser.add_argument("--gin_param", action="append", default=[], help="as in train; may be repeated")
    flags = parser.parse_args()
    out = flags.output_dir.resolve()
    cases, train, held_out = flags.input_dir or out / "cases", out / "train", out / "held_out"
    if not flags.input_dir:
        run_command("phantom", output_dir=cases, num_cases=flags.num_cases, seed=1, kind=flags.kind)
    hold_out(cases, train, held_out)
    runs: list[Run] = []
    seeds = flags.seeds
    for resolution in sorted(flags.resolutions):
        records, folders = out / f"records_{resolution}", {seed: out / f"{resolution}_seed_{seed}" for seed in seeds}
        unfinished = [seed for seed in seeds if not has_results(folders[seed] / "evaluation")]
        if unfinished:
            run_command("convert", input_dir=train, output_dir=records, resolution=resolution)
        for seed in unfinished:
            model, evaluation = folders[seed] / "model", folders[seed] / "evaluation"
            job = {"gin_file": flags.gin_file or [JOB], "gin_param": flags.gin_param}
            run_command("train", data_dir=records, model_dir=model, seed=seed, **job)
            run_command("evaluate", model_dir=model, input_dir=held_out, output_dir=evaluation)
        for seed, folder in folders.items():
            scores = read_scores(folder / "evaluation/metrics.json")
            runs.append({"resolution": resolution, "seed": seed} | scores)
        write_rows(out / TABLE, list(runs[0]), runs)
        what = flags.input_dir or f"synthetic abdomens with {flags.kind.replace('_', ' ')}"
        title = f"{what}, {len(seeds)} seeds"
        draw(out / FIGURE, runs, f"Dice of held-out cases against resolution: {title}")
    print(f"\n{text(runs)}")


if __name__ == "__main__":
    main()
