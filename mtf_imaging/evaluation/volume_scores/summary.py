"""Measures over all cases, as stored in `metrics.json`."""

import math
from collections.abc import Iterable

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.evaluation.volume_scores.case import DETECTED, CaseScore
from mtf_imaging.evaluation.volume_scores.lesions import SIZE_BINS, Lesion
from mtf_imaging.evaluation.volume_scores.measures import MEASURES, measures
from mtf_imaging.evaluation.volume_scores.overlap import NOTHING, Overlap, mean

IOUS = {"iou_above_0.5": 0.5, "iou_above_0": 0.0}  # the challenge's threshold comes first


def dice_per_case(cases: Iterable[dict[str, Overlap]], mask: str) -> float:
    """Returns the mean Dice over cases.

    Args:
      cases: the overlaps of each case, for LiTS `{"liver": Overlap, "lesion": Overlap}`.
      mask: the mask name.
    """
    return mean(overlaps[mask].dice for overlaps in cases)


def dice_global(cases: Iterable[dict[str, Overlap]], mask: str) -> float:
    """Returns the Dice of all cases combined, after summing voxels over cases.

    Args:
      cases: the overlaps of each case, for LiTS `{"liver": Overlap, "lesion": Overlap}`.
      mask: the mask name.
    """
    return sum((overlaps[mask] for overlaps in cases), NOTHING).dice


def summarize(cases: list[CaseScore], description: Description = LITS) -> dict:
    """Computes means, counts and detection scores over cases.

    Args:
      cases: the scores of one or more cases.
      description: the meaning of the labels, and the scoring rules.

    Returns:
      For LiTS `{"liver": {...}, "lesion": {...}, "detected_lesions": {...}, "detection": {...}, "tumor_burden":
      {...}}`. For any labels an entry per mask, with "detected_lesions" and "detection" in the masks of lesions, and
      "mean", the means of the Dice over the masks. A mean omits undefined values and is None if all values are
      undefined; `undefined` counts the omitted values.
    """
    overlaps = [case.overlaps for case in cases]
    rules = description.rules
    summary = {}
    for mask in description.masks:
        rows = [measures(case.overlaps[mask], case.distances[mask], rules, case.voxel_ml) for case in cases]
        summary[mask] = {
            "dice_per_case": dice_per_case(overlaps, mask),
            "dice_global": dice_global(overlaps, mask),
            **_means(rows, MEASURES[rules][1:]),
        }
    if rules == LITS_RULES:
        return summary | _lesion_summary(cases, "lesion", rules) | {"tumor_burden": tumor_burden(cases)}
    for mask in description.lesions:
        summary[mask] |= _lesion_summary(cases, mask, rules)
    names = ("dice_per_case", "dice_global")
    return {"mean": {name: mean(summary[mask][name] for mask in description.masks) for name in names}, **summary}


def detection(lesions: list[Lesion], iou: float) -> dict[str, float | int | None]:
    """Returns precision, recall and F1 over all lesions; a value is None if its denominator is 0.

    Args:
      lesions: the lesions of all cases.
      iou: the intersection over union that a detected lesion must exceed.
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
    """Returns the RMS and maximum errors of the tumor burden over cases with a liver in both masks."""
    errors = [case.burden[0] - case.burden[1] for case in cases if case.burden]
    return {
        "rmse": math.sqrt(mean(error**2 for error in errors)) if errors else None,
        "max_error": max(map(abs, errors), default=None),
        "undefined": len(cases) - len(errors),
    }


def _lesion_summary(cases: list[CaseScore], mask: str, rules: str) -> dict:
    """Returns the means over a mask's detected lesions, and the detection scores of all its lesions and by size."""
    pairs = [(case, lesion) for case in cases for lesion in case.lesions_by_mask[mask]]
    rows = [
        measures(lesion.overlap, lesion.distances, rules, case.voxel_ml)
        for case, lesion in pairs
        if lesion.is_detected(DETECTED)
    ]
    lesions = [lesion for _, lesion in pairs]
    return {
        "detected_lesions": {"count": len(rows), **_means(rows, MEASURES[rules])},
        "detection": {
            name: detection(lesions, iou)
            | {"by_size": {size: detection([x for x in lesions if x.size_bin == size], iou) for size in SIZE_BINS}}
            for name, iou in IOUS.items()
        },
    }


def _means(rows: list[dict], names: Iterable[str]) -> dict:
    result, undefined = {}, {}
    for name in names:
        values = [row[name] for row in rows if row[name] is not None]
        result[name] = mean(values) if values else None
        undefined[name] = len(rows) - len(values)
    return result | {"undefined": undefined}
