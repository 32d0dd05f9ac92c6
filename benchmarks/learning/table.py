"""The results of all runs as a CSV file and as tables."""

import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scipy import stats

from benchmarks.learning.cases import WIDE
from benchmarks.learning.contenders import ALL
from benchmarks.learning.runner import RESULT
from benchmarks.tables import markdown, mean_and_range, read_rows, write_rows

CASES, FOLDS, HEADERS, CHOICES = (f"learning_{name}.csv" for name in ("cases", "folds", "headers", "choices"))
BASELINE = "documented"
ARGMAX = 0.5
_RUN = ("contender", "seed", "steps", "cpu_seconds")
_CONFIDENCE = 0.95

Row = Mapping[str, str]


def write(output_dir: Path) -> None:
    """Collects the results of all finished runs in a folder: a row for each case and threshold."""
    paths = sorted(output_dir.glob(f"*/{RESULT}"), key=lambda path: path.stat().st_mtime)
    rows = []
    for path in paths:
        run = json.loads(path.read_text())
        rows += [{name: run[name] for name in _RUN} | row for row in run["cases"]]
    if rows:
        write_rows(output_dir / CASES, list(rows[0]), rows)


def read(path: Path, wide: bool | None = None, threshold: float = ARGMAX) -> dict[str, dict[str, list[Row]]]:
    """Returns {contender: {seed: the rows of its cases}}.

    Args:
      path: a file of `write`.
      wide: whether to read only the wide warps, or only the other cases; None for all.
      threshold: the threshold of the lesions.
    """
    runs: dict[str, dict[str, list[Row]]] = {}
    for row in read_rows(path):
        if float(row["threshold"]) == threshold and wide in (None, int(row["case"]) >= WIDE):
            runs.setdefault(row["contender"], {}).setdefault(row["seed"], []).append(row)
    return runs


def dice(rows: Iterable[Row], mask: str = "lesion") -> float:
    """Returns the mean Dice of the cases that have the mask."""
    return statistics.fmean(
        2 * int(row[f"{mask}_shared"]) / (int(row[f"{mask}_predicted"]) + int(row[f"{mask}_reference"]))
        for row in rows
        if int(row[f"{mask}_reference"])
    )


def share(rows: Sequence[Row], what: str, of: str) -> float:
    """Returns the share of the predicted or of the reference voxels or lesions that is shared, over all cases."""
    total = sum(int(row[f"{what}_{of}"]) for row in rows)
    return sum(int(row[f"{what}_shared"]) for row in rows) / total if total else math.nan


def difference(values: Sequence[float]) -> str:
    """Formats the mean of differences between runs of the same seeds, with its confidence interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return f"{mean:+.3f}"
    half = stats.t.ppf((1 + _CONFIDENCE) / 2, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:+.3f} ({mean - half:+.3f} to {mean + half:+.3f})"


def text(path: Path, wide: bool | None = None) -> str:
    """Returns a Markdown table of all contenders: means over seeds, with ranges in parentheses.

    The difference is that of the lesion Dice from the documented job's run with the same seed.
    """
    runs = read(path, wide)
    baseline = {seed: dice(rows) for seed, rows in runs.get(BASELINE, {}).items()}
    head = ["contender", "seeds", "steps", "CPU s", "lesion Dice", "difference", "voxel precision", "voxel recall"]
    head += ["lesion precision", "lesion recall", "liver Dice"]
    lines = []
    for name, by_seed in runs.items():
        every = list(by_seed.values())
        pairs = [dice(rows) - baseline[seed] for seed, rows in by_seed.items() if seed in baseline]
        seconds = statistics.fmean(float(rows[0]["cpu_seconds"]) for rows in every)
        cells = [f"`{name}`: {ALL[name].title}", str(len(every)), every[0][0]["steps"], f"{seconds:.0f}"]
        cells += [mean_and_range([dice(rows) for rows in every])]
        cells += [difference(pairs) if pairs and name != BASELINE else ""]
        for what in ("lesion", "lesions"):
            for of in ("predicted", "reference"):
                values = [value for rows in every if not math.isnan(value := share(rows, what, of))]
                cells.append(f"{statistics.fmean(values):.3f}" if values else "-")
        lines.append([*cells, mean_and_range([dice(rows, "liver") for rows in every])])
    return markdown(head, lines)


def by_case(path: Path) -> str:
    """Returns a Markdown table of the lesion Dice of each case with lesions, the mean over seeds."""
    runs = read(path)
    keys = sorted({int(row["case"]) for by_seed in runs.values() for rows in by_seed.values() for row in rows})
    lines, head = [], ["contender"]
    for name, by_seed in runs.items():
        cells = [f"`{name}`"]
        for key in keys:
            own = [row for rows in by_seed.values() for row in rows if int(row["case"]) == key]
            if int(own[0]["lesion_reference"]):
                head += [f"case {key}"] * (len(lines) == 0)
                cells.append(f"{statistics.fmean(dice([row]) for row in own):.3f}")
        lines.append(cells)
    return markdown(head, lines)


def by_threshold(columns: Mapping[str, tuple[Path, bool | None]], name: str = BASELINE) -> str:
    """Returns a Markdown table of the lesion Dice of a contender by the threshold of the lesions.

    Args:
      columns: {title: (file, wide)}, as in `read`; files that do not exist leave their column empty.
      name: the contender.
    """
    files = {path for path, _ in columns.values() if path.exists()}
    thresholds = sorted({float(row["threshold"]) for path in files for row in read_rows(path)}, reverse=True)
    lines = []
    for threshold in thresholds:
        cells = [f"{threshold:g}{' (argmax)' if threshold == ARGMAX else ''}"]
        for path, wide in columns.values():
            runs = read(path, wide, threshold).get(name, {}) if path in files else {}
            cells.append(mean_and_range([dice(rows) for rows in runs.values()]))
        lines.append(cells)
    return markdown(["threshold", *columns], lines)


def by_spacing(files: Mapping[str, Path]) -> str:
    """Returns a Markdown table of the documented job's Dice by the voxel size of its records.

    Args:
      files: {voxel size in mm: file}.
    """
    lines = []
    for spacing, path in files.items():
        narrow, wide = (list(read(path, is_wide)[BASELINE].values()) for is_wide in (False, True))
        seconds = statistics.fmean(float(rows[0]["cpu_seconds"]) for rows in narrow)
        scores = [[dice(rows, mask) for rows in runs] for mask in ("lesion", "liver") for runs in (narrow, wide)]
        lines.append([f"{spacing} mm", str(len(narrow)), f"{seconds:.0f}", *map(mean_and_range, scores)])
    columns = [f"{mask}, {cases}" for mask in ("lesion", "liver") for cases in ("test cases", "wide warps")]
    return markdown(["voxels", "seeds", "CPU s", *columns], lines)


def choices(path: Path) -> str:
    """Returns a Markdown table of earlier runs on folds, of which only the Dice is stored."""
    by_name: dict[str, list[Row]] = {}
    for row in read_rows(path):
        by_name.setdefault(row["contender"], []).append(row)
    baseline = {row["seed"]: float(row["lesion"]) for row in by_name[BASELINE]}
    lines = []
    for name, rows in by_name.items():
        lesion, liver = (mean_and_range([float(row[mask]) for row in rows]) for mask in ("lesion", "liver"))
        pairs = difference([float(row["lesion"]) - baseline[row["seed"]] for row in rows]) if name != BASELINE else ""
        seconds = statistics.fmean(float(row["cpu_seconds"]) for row in rows)
        lines.append(
            [f"`{name}`: {ALL[name].title}", str(len(rows)), rows[0]["steps"], f"{seconds:.0f}", lesion, pairs, liver]
        )
    return markdown(["contender", "seeds", "steps", "CPU s", "lesion", "difference", "liver"], lines)


def headers(path: Path) -> str:
    """Returns a Markdown table of the lesion and liver Dice of the case without axes in its header."""
    lines, rows = [], [row for row in read_rows(path) if row["case"] == "101"]
    for name in dict.fromkeys(row["contender"] for row in rows):
        own = [row for row in rows if row["contender"] == name]
        cells = [mean_and_range([float(row[mask]) for row in own]) for mask in ("lesion", "liver")]
        lines.append([f"`{name}`", str(len(own)), *cells])
    return markdown(["contender", "seeds", "lesion", "liver"], lines)
