"""All measures of one case."""

from dataclasses import dataclass

import numpy as np

from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.scoring.lesions import Lesion, find_lesions
from mtf_imaging.evaluation.scoring.overlap import MASKS, Overlap, label_overlaps
from mtf_imaging.evaluation.scoring.surface import SurfaceDistances, surface_distances

DETECTED = 0.5  # intersection over union above which a lesion counts as detected, where nothing else is said


@dataclass(frozen=True)
class CaseScore:
    """What a case's prediction is worth.

    Attributes:
      key: the case.
      overlaps: `{"liver": Overlap, "lesion": Overlap}` of the whole masks.
      distances: the same of their surfaces, in mm; None where a mask is empty.
      lesions: its lesions and what was predicted as such, one by one.
    """

    key: str
    overlaps: dict[str, Overlap]
    distances: dict[str, SurfaceDistances | None]
    lesions: list[Lesion]

    @property
    def detected(self) -> list[Lesion]:
        """The lesions that are detected at an intersection over union above 0.5."""
        return [lesion for lesion in self.lesions if lesion.is_detected(DETECTED)]

    @property
    def burden(self) -> tuple[float, float] | None:
        """Lesion voxels / liver voxels of prediction and reference; None where one of them has no liver."""
        lesion, liver = self.overlaps["lesion"], self.overlaps["liver"]
        if not liver.prediction or not liver.reference:
            return None
        return lesion.prediction / liver.prediction, lesion.reference / liver.reference


def score_case(
    key: str, prediction: np.ndarray, reference: np.ndarray, spacing: tuple[float, float, float]
) -> CaseScore:
    """Scores a case.

    Args:
      key: the case.
      prediction: labels `[x, y, z]`, 0 background, 1 liver, 2 lesion.
      reference: the same of the reference.
      spacing: voxel size in mm.

    Raises:
      DataError: the arrays differ in shape.
    """
    if prediction.shape != reference.shape:
        raise DataError(f"case '{key}': prediction of shape {prediction.shape}, reference of {reference.shape}.")
    distances = {name: surface_distances(mask(prediction), mask(reference), spacing) for name, mask in MASKS.items()}
    is_lesion = MASKS["lesion"]
    lesions = find_lesions(is_lesion(prediction), is_lesion(reference), spacing)
    return CaseScore(key, label_overlaps(prediction, reference), distances, lesions)
