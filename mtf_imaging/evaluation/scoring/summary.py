"""Measures over all cases, as stored in `metrics.json`."""

import dataclasses
import math
from collections.abc import Iterable

from mtf_imaging.evaluation.scoring.case import CaseScore
from mtf_imaging.evaluation.scoring.lesions import SIZE_BINS, Lesion
from mtf_imaging.evaluation.scoring.overlap import MASKS, NOTHING, Overlap, mean
from mtf_imaging.evaluation.scoring.surface import SurfaceDistances

DISTANCES = tuple(field.name for field in dataclasses.fields(SurfaceDistances))
OVERLAPS = ("dice", "voe", "rvd")
IOUS = {"iou_above_0.5": 0.5, "iou_above_0": 0.0}  # the threshold of the challenge comes first


def dice_per_case(cases: Iterable[dict[str, Overlap]], mask: str) -> float:
    """Returns the mean Dice over cases.

    Args:
      cases: the overlaps of each case, `{"liver": Overlap, "lesion": Overlap}`.
      mask: "liver" or "lesion".
    """
    return mean(overlaps[mask].dice for overlaps in cases)


def dice_global(cases: Iterable[dict[str, Overlap]], mask: str) -> float:
    """Returns the Dice of all cases combined: voxels are summed over cases first.

    Args:
      cases: the overlaps of each case, `{"liver": Overlap, "lesion": Overlap}`.
      mask: "liver" or "lesion".
    """
    return sum((overlaps[mask] for overlaps in cases), NOTHING).dice


def measures(overlap: Overlap, distances: SurfaceDistances | None) -> dict[str, float | None]:
    """Returns `{"dice": ..., "voe": ..., "rvd": ..., "assd": ..., ...}` of two masks; undefined values are None."""
    surface_measures = dataclasses.asdict(distances) if distances else dict.fromkeys(DISTANCES)
    return {name: getattr(overlap, name) for name in OVERLAPS} | surface_measures


def summarize(cases: list[CaseScore]) -> dict:
    """Computes means, counts and detection scores over cases.

    Returns:
      `{"liver": {...}, "lesion": {...}, "detected_lesions": {...}, "detection": {...}, "tumor_burden": {...}}`. A
      mean omits undefined values and is None if all values are undefined; `undefined` counts the omitted values.
    """
    overlaps = [case.overlaps for case in cases]
    summary = {}
    for mask in MASKS:
        rows = [measures(case.overlaps[mask], case.distances[mask]) for case in cases]
        summary[mask] = {
            "dice_per_case": dice_per_case(overlaps, mask),
            "dice_global": dice_global(overlaps, mask),
            **_means(rows, ("voe", "rvd", *DISTANCES)),
        }
    detected = [lesion for case in cases for lesion in case.detected]
    rows = [measures(lesion.overlap, lesion.distances) for lesion in detected]
    summary["detected_lesions"] = {"count": len(detected), **_means(rows, (*OVERLAPS, *DISTANCES))}
    lesions = [lesion for case in cases for lesion in case.lesions]
    summary["detection"] = {
        name: detection(lesions, iou)
        | {"by_size": {size: detection([x for x in lesions if x.size_bin == size], iou) for size in SIZE_BINS}}
        for name, iou in IOUS.items()
    }
    summary["tumor_burden"] = tumor_burden(cases)
    return summary


def detection(lesions: list[Lesion], iou: float) -> dict[str, float | int | None]:
    """Returns precision, recall and F1 over all lesions; a value is None if its denominator is 0.

    Args:
      lesions: the lesions of all cases.
      iou: the intersection over union that a detected lesion exceeds.
    """
    true = sum(lesion.is_detected(iou) for lesion in lesions)
    false = sum(lesion.overlap.prediction > 0 for lesion in lesions) - true
    missed = sum(lesion.overlap.reference > 0 for lesion in lesions) - true
    return {
        "precision": true / (true + false) if true + false else None,
        "recall": true / (true + missed) if true + missed else None,
        "f1": 2 * true / (2 * true + false + missed) if true + false + missed else None,
        "true_positives": true,
        "false_positives": false,
        "false_negatives": missed,
    }


def tumor_burden(cases: list[CaseScore]) -> dict[str, float | int | None]:
    """Returns the root mean square and the maximum error of the tumor burden over cases with both livers."""
    errors = [case.burden[0] - case.burden[1] for case in cases if case.burden]
    return {
        "rmse": math.sqrt(mean(error**2 for error in errors)) if errors else None,
        "max_error": max(map(abs, errors), default=None),
        "undefined": len(cases) - len(errors),
    }


def _means(rows: list[dict], names: Iterable[str]) -> dict:
    result, undefined = {}, {}
    for name in names:
        values = [row[name] for row in rows if row[name] is not None]
        result[name] = mean(values) if values else None
        undefined[name] = len(rows) - len(values)
    return result | {"undefined": undefined}
