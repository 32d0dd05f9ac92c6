"""Summarizes measurements: medians, quartiles, and ratios to the reference with intervals."""

import dataclasses
import math

import numpy as np

from benchmarks.partition.contender import REFERENCE
from benchmarks.partition.networks import Step

_RESAMPLES, _INTERVAL = 2000, (2.5, 97.5)  # bootstrap samples; percentiles
_QUARTILES = (25, 50, 75)


def summarize(step: Step, rows: list[dict], matrix_product_rate: float | None = None) -> None:
    """Adds these values to each row that contains the data for them:

    - "quartiles_s": the quartiles of its steps in seconds; the second one is the median;
    - "ns_a_voxel": the median in nanoseconds, divided by the voxels of the step;
    - "flop_rate", "flop_rate_ratio": the FLOP/s of its convolutions in the median step, and the ratio to
      `matrix_product_rate`, the FLOP/s of a large matrix product;
    - "ratio", "ratio_interval": the ratio of its median step to the reference's;
    - "memory_bytes", "memory_ratio": the peak memory of its largest process, and the ratio to the reference;
    - "over_import_bytes", "over_import_ratio": the same without the memory from before the build.
    """
    reference = next((row for row in rows if row["kind"] == REFERENCE), {})
    for row in rows:
        steps = row.get("steps_s")
        if steps:
            row["quartiles_s"] = np.percentile(steps, _QUARTILES).tolist()
            own = dataclasses.replace(step, sizes=tuple(row.get("sizes") or step.sizes))
            row["ns_a_voxel"] = 1e9 * row["quartiles_s"][1] / (own.batch * math.prod(own.sizes))
            row["flop_rate"] = own.flops / row["quartiles_s"][1]
            if matrix_product_rate:
                row["flop_rate_ratio"] = row["flop_rate"] / matrix_product_rate
            if len(steps) == len(reference.get("steps_s", [])):
                row["ratio"], row["ratio_interval"] = _ratio(np.array(steps), np.array(reference["steps_s"]))
        if row.get("peak_bytes"):
            _add_memory(row)
    for row in rows:
        for name in ("memory", "over_import"):
            if f"{name}_bytes" in row and f"{name}_bytes" in reference:
                row[f"{name}_ratio"] = row[f"{name}_bytes"] / reference[f"{name}_bytes"]


def _ratio(steps, reference):
    """Returns the ratio of medians, and its interval from a bootstrap over rounds, which keeps each round together."""
    chosen = np.random.default_rng(0).integers(0, len(steps), (_RESAMPLES, len(steps)))
    ratios = np.median(steps[chosen], axis=1) / np.median(reference[chosen], axis=1)
    return float(np.median(steps) / np.median(reference)), np.percentile(ratios, _INTERVAL).tolist()


def _add_memory(row):
    """Adds the peak memory of the processes or GPU that do the work."""
    others, base = row.get("others_bytes"), row.get("others_base_bytes")
    if others:
        fullest = max(others, key=others.get)
        row["memory_bytes"], base = others[fullest], base[fullest]
    elif row.get("device_peak_bytes"):
        row["memory_bytes"], base = row["device_peak_bytes"], 0
    else:
        row["memory_bytes"], base = row["peak_bytes"], row["base_bytes"]
    row["over_import_bytes"] = row["memory_bytes"] - base
