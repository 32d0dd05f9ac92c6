"""What is made of a contender's measurements: medians, quartiles, and ratios to the reference with an interval."""

import math

import numpy as np

from benchmarks.partition.contender import REFERENCE
from benchmarks.partition.networks import Step

_RESAMPLES, _INTERVAL = 2000, (2.5, 97.5)  # of the bootstrap; per cent
_QUARTILES = (25, 50, 75)


def summarise(step: Step, rows: list[dict]) -> None:
    """Adds to each row, where it has what that takes:

    - "quartiles_s": the first, second (the median) and third quartile of its steps;
    - "ns_a_voxel": the median, by the step's voxels;
    - "ratio", "ratio_interval": of its median step to the reference's, of the rounds that both took;
    - "memory_bytes": the most that any of its processes held, and "memory_ratio" of that;
    - "over_import_bytes": that less what the process held before it built anything, and "over_import_ratio".
    """
    reference = next((row for row in rows if row["kind"] == REFERENCE), {})
    for row in rows:
        steps = row.get("steps_s")
        if steps:
            row["quartiles_s"] = np.percentile(steps, _QUARTILES).tolist()
            row["ns_a_voxel"] = 1e9 * row["quartiles_s"][1] / (step.batch * math.prod(step.sizes))
            if len(steps) == len(reference.get("steps_s", [])):
                row["ratio"], row["ratio_interval"] = _ratio(np.array(steps), np.array(reference["steps_s"]))
        if row.get("peak_bytes"):
            _add_memory(row)
    for row in rows:
        for name in ("memory", "over_import"):
            if f"{name}_bytes" in row and f"{name}_bytes" in reference:
                row[f"{name}_ratio"] = row[f"{name}_bytes"] / reference[f"{name}_bytes"]


def _ratio(steps, reference):
    """The ratio of medians, and its interval by a bootstrap over rounds, which keeps what a round has in common."""
    chosen = np.random.default_rng(0).integers(0, len(steps), (_RESAMPLES, len(steps)))
    ratios = np.median(steps[chosen], axis=1) / np.median(reference[chosen], axis=1)
    return float(np.median(steps) / np.median(reference)), np.percentile(ratios, _INTERVAL).tolist()


def _add_memory(row):
    """Where the work is done by other processes than that which runs the program, theirs is the memory that counts."""
    others, base = row.get("others_bytes"), row.get("others_base_bytes")
    if others:
        fullest = max(others, key=others.get)
        row["memory_bytes"], base = others[fullest], base[fullest]
    elif row.get("device_peak_bytes"):
        row["memory_bytes"], base = row["device_peak_bytes"], 0
    else:
        row["memory_bytes"], base = row["peak_bytes"], row["base_bytes"]
    row["over_import_bytes"] = row["memory_bytes"] - base
