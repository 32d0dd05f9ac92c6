"""The scores of the LiTS challenge as computed by its original program, including its quirks.

The program is github.com/PatrickChrist/lits-challenge-scoring, commit 090307d.
`docs/reference/metrics.md` lists the differences from the measures in `summary`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.description.description import LITS
from mtf_imaging.evaluation.volume_scores.components import Components, find_components
from mtf_imaging.evaluation.volume_scores.lesions import score_groups
from mtf_imaging.evaluation.volume_scores.official_detection import OfficialDetection, detect_lesions
from mtf_imaging.evaluation.volume_scores.overlap import NOTHING, Overlap, label_overlaps, mean
from mtf_imaging.evaluation.volume_scores.surface import SurfaceDistances, surface_distances
from mtf_imaging.evaluation.volume_scores.views import mask_view
from mtf_imaging.evaluation.volume_scores.voxels import Voxels, slabs, whole

_LARGE = 9001.0  # the program's value for undefined distances
# the scores of a mask without a counterpart
_MISSED = {"dice": 0.0, "jaccard": 0.0, "voe": 1.0, **dict.fromkeys(("rvd", "assd", "rmsd", "msd"), _LARGE)}
OFFICIAL_MEASURES = ("dice_per_case", "dice_global", *_MISSED)  # the program's names, for both liver and lesion
_DETECTION = {0.5: "", 0.0: "_greater_zero"}  # {intersection over union: suffix of its precision and recall}


@dataclass(frozen=True)
class OfficialCase:
    """The values that the program collects from one case.

    Attributes:
      detected: the number of lesions detected above each threshold of intersection over union.
      num_predicted: the number of components of the predicted lesion mask.
      num_reference: the number of components of the reference lesion mask.
      lesions: the scores of each lesion detected above 0.5.
      liver: the scores of the liver.
      overlaps: `{"liver": Overlap, "lesion": Overlap}`, without a predicted liver if no voxel is labeled 1.
      burden_error: the tumor burden (lesion voxels / liver voxels) of the reference minus the burden of the
        prediction; None if the reference has no liver.
    """

    detected: dict[float, int]
    num_predicted: int
    num_reference: int
    lesions: list[dict[str, float]]
    liver: dict[str, float]
    overlaps: dict[str, Overlap]
    burden_error: float | None


def official_case(
    prediction: Voxels,
    reference: Voxels,
    spacing: tuple[float, float, float],
    liver_distances: SurfaceDistances | None = None,
) -> OfficialCase:
    """Collects the values that the program computes for a case.

    Args:
      prediction: labels `[i, j, k]` along the stored axes of the reference's file; an array, or another volume that can
        be read in parts. The program numbers lesions in this order, and some of its results depend on it.
      reference: labels of the reference, along the same axes.
      spacing: voxel size in mm along these axes, from the header of the reference's file.
      liver_distances: surface distances between the liver masks at this spacing; None computes them.
    """
    overlaps = label_overlaps(prediction, reference)
    liver = overlaps["liver"]
    if not any((prediction[region] == 1).any() for region in slabs(whole(prediction.shape))):
        liver = Overlap(0, 0, liver.reference)
    elif liver.reference and liver_distances is None:
        masks = (mask_view(labels, LITS, "liver") for labels in (prediction, reference))
        liver_distances = surface_distances(*masks, spacing)
    components = find_components(*(mask_view(labels, LITS, "lesion") for labels in (prediction, reference)))
    detections = {iou: detect_lesions(components, iou) for iou in _DETECTION}
    return OfficialCase(
        detected={iou: detection.count for iou, detection in detections.items()},
        num_predicted=components.prediction.count,
        num_reference=components.reference.count,
        lesions=_lesion_scores(components, detections[0.5], spacing),
        liver=_scores(liver, liver_distances),
        overlaps={"liver": liver, "lesion": overlaps["lesion"]},
        burden_error=_burden_error(liver, overlaps["lesion"]),
    )


def official_scores(cases: Iterable[OfficialCase]) -> dict[str, float | None]:
    """Computes the challenge's scores over cases.

    Args:
      cases: one or more cases.

    Returns:
      The scores under the program's names. A score is None if the program stops with a division by zero: the global
      Dice if no case has the mask, the tumor burden if a reference has no liver.
    """
    cases = list(cases)
    scores = {}
    for iou, suffix in _DETECTION.items():
        detected = sum(case.detected[iou] for case in cases)
        # The program counts all predicted components except detections as false, so the sum covers all components.
        scores[f"lesion_precision{suffix}"] = _ratio(detected, sum(case.num_predicted for case in cases)) or 0.0
        scores[f"lesion_recall{suffix}"] = _ratio(detected, sum(case.num_reference for case in cases)) or 0.0
    rows = {"lesion": [lesion for case in cases for lesion in case.lesions] or [_MISSED]}
    rows["liver"] = [case.liver for case in cases]
    for mask in ("lesion", "liver"):
        scores |= {f"{mask}_{name}": mean(row[name] for row in rows[mask]) for name in _MISSED}
        overlaps = [case.overlaps[mask] for case in cases]
        total = sum(overlaps, NOTHING)
        scores[f"{mask}_dice_per_case"] = mean(_dice_of_case(mask, counts) for counts in overlaps)
        scores[f"{mask}_dice_global"] = _ratio(2 * total.intersection, total.prediction + total.reference)
    errors = [case.burden_error for case in cases]
    is_defined = None not in errors
    scores["RMSE_Tumorburden"] = math.sqrt(mean(error**2 for error in errors)) if is_defined else None
    scores["MAXERROR_Tumorburden"] = max(errors) if is_defined else None
    return scores


def _lesion_scores(
    components: Components, detection: OfficialDetection, spacing: tuple[float, float, float]
) -> list[dict[str, float]]:
    """Scores each detected lesion. Like the program, returns an empty list if the count is not positive."""
    if detection.count <= 0:
        return []
    numbers = np.unique(detection.prediction)[1:]
    scored = score_groups(components, detection.prediction, detection.reference, numbers, spacing)
    return [_scores(counts, distances) for counts, distances in scored]


def _scores(counts: Overlap, distances: SurfaceDistances | None) -> dict[str, float]:
    """Returns the scores of one pair of masks."""
    if not counts.prediction or not counts.reference:
        return _MISSED
    return {
        "dice": counts.dice,
        "jaccard": counts.jaccard,
        "voe": counts.voe,
        "rvd": (counts.reference - counts.prediction) / counts.prediction,
        "assd": distances.assd,
        "rmsd": distances.rmsd,
        "msd": distances.mssd,
    }


def _dice_of_case(mask: str, counts: Overlap) -> float:
    """Returns the Dice of a case: 1 if neither mask has a lesion, 0 if no liver is predicted."""
    return 0.0 if mask == "liver" and not counts.prediction else counts.dice


def _burden_error(liver: Overlap, lesion: Overlap) -> float | None:
    """Returns the tumor burden of the reference minus the predicted burden, which is 9001 without a predicted liver."""
    if not liver.reference:
        return None
    predicted = lesion.prediction / liver.prediction if liver.prediction else _LARGE
    return lesion.reference / liver.reference - predicted


def _ratio(numerator: int, denominator: int) -> float | None:
    return numerator / denominator if denominator else None
