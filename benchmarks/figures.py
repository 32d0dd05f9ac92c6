"""Measures every Dice score in the documentation and writes the scores to its pages.

    python -m benchmarks.figures --output_dir figures                        # about 9 hours on 2 cores
    python -m benchmarks.figures --output_dir figures --real_ct_dir FOLDER   # includes real CTs

Each score is a mean over at least three seeds with its range. `benchmarks.resolution_study`, `benchmarks.context_study`
and `benchmarks.learning` run the trainings, so this command resumes after an interruption. It keeps the scores of all
runs in docs/figures/ and builds the tables and the figures of the documentation from these files. FOLDER contains LiTS
cases in train/ and held-out cases in test/; real CTs take 7 more hours.
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import demo_scores, objects_study, resolution_study
from benchmarks.context_study import table as context_table
from benchmarks.context_study.contenders import WHOLE
from benchmarks.learning import table as learning_table
from benchmarks.learning.cases import lost_sizes
from benchmarks.learning.contenders import ALL, SPACING
from benchmarks.resolution_study import MASKS, Run, dice_values
from benchmarks.tables import markdown, mean_and_range

ROOT = Path(__file__).parents[1]
FIGURES, PICTURES = ROOT / "docs/figures", ROOT / "docs/pictures"
CONTEXT = ("context", "context_real_ct")  # the context studies
RESOLUTION = ("resolution", "resolution_large")  # the studies of resolution on phantoms
SPACINGS = {mm: f"learning_{mm}mm.csv" for mm in ("6", "4", "3", "2", "1.5")} | {SPACING: learning_table.CASES}
_EVIDENCE = ROOT / "docs/evidence"
_LEARNING = ("wide", "test", "cases", "thresholds", "thresholds_phantoms", "choices", "headers")
PAGES = {  # {table: pages}
    "quality": [ROOT / "README.md"],
    "demo": [ROOT / "docs/start/demo.md"],
    **{name: [_EVIDENCE / "resolution.md"] for name in ("resolution", "resolution_large", "resolution_real_ct")},
    "objects": [_EVIDENCE / "resolution.md"],
    **{name: [_EVIDENCE / "context.md"] for name in (*CONTEXT, "context_seeds", "context_longer")},
    **{name: [_EVIDENCE / "learning.md"] for name in _LEARNING},
}
DEMO_CASES = "demo_cases.csv"
_ON_FOLDS = ("--on", "folds", "--contenders", "documented", "--seeds", "1,2,3")
_PHANTOMS = {"folds of 12 phantoms": "folds", "8 held-out phantoms": "held_out"}
_FOLDS = "folds of the training cases"
_DEMO = ("phantoms at 64^3: 12 to train on, 4 held out", "`unet3d_demo`, 400 steps, 4 x 4 mesh")
_REAL_CT = "real CT at 3 mm, one patient warped: 12 to train on, 4 held out"


def measure(output_dir: Path, real_ct_dir: Path | None) -> None:
    """Runs the studies and copies their scores to `FIGURES`."""
    demo_cases = output_dir / "demo_cases"
    if not demo_cases.is_dir():
        _run("mtf_imaging.cli.main", "phantom", "--output_dir", demo_cases, "--num_cases", "16", "--seed", "1")
    job = ["--resolutions", "64", "--seeds", "0,1,2,3,4,5", "--gin_file"]  # 0 is the seed of the demo
    studies = {
        "demo": ["--input_dir", demo_cases, *job, "unet3d_demo", "--gin_file", "4x4"],
        "resolution": [],
        "resolution_large": ["--kind", "large_lesions", "--resolutions", "16,32,48,64,96,128"],
    }
    for name, words in studies.items():
        _run("benchmarks.resolution_study", "--output_dir", output_dir / name, *words)
        FIGURES.mkdir(exist_ok=True)
        shutil.copyfile(output_dir / name / resolution_study.TABLE, FIGURES / f"{name}.csv")
    demo_scores.write_scores(demo_scores.read_runs(output_dir / "demo"), FIGURES / DEMO_CASES)
    for name in RESOLUTION:
        shutil.copyfile(output_dir / name / resolution_study.FIGURE, PICTURES / f"{name}.png")
    _run("benchmarks.objects_study", "--output_dir", output_dir / "objects")
    shutil.copyfile(output_dir / "objects" / objects_study.TABLE, FIGURES / objects_study.TABLE)
    _write_phantoms(output_dir / "phantoms")
    _learning("phantoms_folds", output_dir / "phantoms", output_dir, *_ON_FOLDS, "--spacing", "4")
    _learning("phantoms_held_out", output_dir / "phantoms", output_dir, "--contenders", "documented", "--spacing", "4")
    more = ["--contenders", WHOLE.name, "--seeds", "6,7,8,9,10"]
    _run("benchmarks.context_study", "--output_dir", output_dir / "context", "--phantoms", "marker", "side", *more)
    _context("context", output_dir)
    _context("context_longer", output_dir, "--phantoms", "side", *more[:3], "6,7,10", "--num_steps", "300")
    if real_ct_dir:
        _context("context_real_ct", output_dir, *_context_of(real_ct_dir, output_dir))
        _learning("cases", real_ct_dir, output_dir)
        _learning("folds", real_ct_dir, output_dir, *_ON_FOLDS)
        for mm in (mm for mm in SPACINGS if mm != SPACING):
            words = ["--contenders", "documented", "--seeds", "1,2,3", "--spacing", mm]
            _learning(f"{mm}mm", real_ct_dir, output_dir, *words)


def _learning(name: str, cases: Path, output_dir: Path, *words: str) -> None:
    """Runs a comparison of learning, and copies its results to the documentation."""
    folder = output_dir / f"learning_{name}"
    _run("benchmarks.learning", "--cases", cases, "--output_dir", folder, *words)
    shutil.copyfile(folder / learning_table.CASES, FIGURES / f"{folder.name}.csv")


def _write_phantoms(folder: Path) -> None:
    """Writes phantoms with small lesions: 12 to train on, and 8 that are held out."""
    if folder.is_dir():
        return
    cases = folder.with_name(f"{folder.name}_cases")
    _run(
        "mtf_imaging.cli.main",
        "phantom",
        "--output_dir",
        cases,
        "--num_cases",
        "20",
        "--seed",
        "7",
        "--kind",
        "small_lesions",
    )
    parts = {"train": range(12), "test": range(12, 16), "wide": range(16, 20)}
    for part, numbers in parts.items():
        (folder / part).mkdir(parents=True)
        for path in (cases / f"{kind}-{number}.nii.gz" for number in numbers for kind in ("volume", "segmentation")):
            path.rename(folder / part / path.name)


def _context_of(real_ct_dir: Path, output_dir: Path) -> list[object]:
    """Returns the flags of the context study on real CTs."""
    folders = ["--input_dir", real_ct_dir / "train", "--held_out_dir", real_ct_dir / "test"]
    job = ["--gin_file", "unet3d_real_ct", "--gin_param", "Adam.learning_rate=0.003", "--num_steps", "240"]
    words = [*folders, "--spacing", "3", "--multiple", "2", *job]
    if sizes := lost_sizes(real_ct_dir):
        table = output_dir / "spacing.csv"
        table.write_text(sizes)
        words += ["--spacing_csv", table]
    return words


def _context(name: str, output_dir: Path, *words: object) -> None:
    """Runs a context study and copies its results to the documentation."""
    _run("benchmarks.context_study", "--output_dir", output_dir / name, *words)
    shutil.copyfile(output_dir / name / context_table.TABLE, FIGURES / f"{name}.csv")
    if name in CONTEXT:
        shutil.copyfile(output_dir / name / context_table.FIGURE, PICTURES / f"{name}.png")


def tables() -> dict[str, str]:
    """Returns the documentation's tables in Markdown, from the files in `FIGURES`."""
    runs = FIGURES / learning_table.CASES
    return {
        "quality": quality_table(resolution_study.read(FIGURES / "demo.csv"), runs),
        "demo": demo_scores.scores_table(FIGURES / DEMO_CASES),
        **{name: resolution_study.text(resolution_study.read(FIGURES / f"{name}.csv")) for name in RESOLUTION},
        "resolution_real_ct": learning_table.by_spacing({mm: FIGURES / name for mm, name in SPACINGS.items()}),
        "objects": objects_study.text(objects_study.read(FIGURES / objects_study.TABLE)),
        **{name: context_table.text(context_table.read(FIGURES / f"{name}.csv")) for name in CONTEXT},
        "context_seeds": context_table.by_seed(context_table.read(FIGURES / "context.csv"), WHOLE.name),
        "context_longer": context_table.by_seed(context_table.read(FIGURES / "context_longer.csv"), WHOLE.name),
        "wide": learning_table.text(runs, wide=True),
        "test": learning_table.text(runs, wide=False),
        "cases": learning_table.by_case(runs),
        "thresholds": learning_table.by_threshold(
            {_FOLDS: (FIGURES / learning_table.FOLDS, None), "test cases": (runs, False), "wide warps": (runs, True)}
        ),
        "thresholds_phantoms": learning_table.by_threshold(
            {title: (FIGURES / f"learning_phantoms_{name}.csv", None) for title, name in _PHANTOMS.items()}
        ),
        "choices": learning_table.choices(FIGURES / learning_table.CHOICES),
        "headers": learning_table.headers(FIGURES / learning_table.HEADERS),
    }


def quality_table(demo: Sequence[Run], learning: Path) -> str:
    """Returns a table with one row for the demo and one for real CTs."""
    by_seed = learning_table.read(learning, wide=False)[learning_table.BASELINE].values()
    steps = f"`unet3d_real_ct`, {ALL[learning_table.BASELINE].steps} steps"
    rows = [
        [*_DEMO, *(mean_and_range(dice_values(demo, 64, mask)) for mask in MASKS)],
        [
            _REAL_CT,
            steps,
            *(mean_and_range([learning_table.dice(rows, mask) for rows in by_seed]) for mask in MASKS),
        ],
    ]
    return markdown(["data", "job, with 8 base filters", "liver Dice per case", "lesion Dice per case"], rows)


def with_table(page: str, name: str, table: str) -> str:
    """Returns the text of a page with one of its tables replaced.

    Raises:
      ValueError: the page lacks the two comments that mark the table's place.
    """
    start, end = f"<!-- figures: {name} -->\n", "\n<!-- figures end -->"
    pattern = re.compile(f"({re.escape(start)})(?:(?!<!-- figures).)*({re.escape(end)})", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"the page needs one table between '{start.strip()}' and '{end.strip()}'.")
    return pattern.sub(lambda match: match[1] + table + match[2], page)


def write_pages() -> None:
    """Writes the tables to the pages."""
    for name, table in tables().items():
        for page in PAGES[name]:
            page.write_text(with_table(page.read_text(), name, table))


def _run(module: str, *words: object) -> None:
    command = [sys.executable, "-m", module, *map(str, words)]
    if subprocess.run(command, cwd=ROOT).returncode:
        sys.exit("A command failed. Fix: correct the error above and run the same command again; it resumes.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", type=Path, required=True, help="folder for the runs")
    parser.add_argument("--real_ct_dir", type=Path, help="folder of LiTS cases in train/ and test/")
    values = parser.parse_args()
    measure(values.output_dir.resolve(), values.real_ct_dir and values.real_ct_dir.resolve())
    write_pages()


if __name__ == "__main__":
    main()
