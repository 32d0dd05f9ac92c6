"""The scores of one case."""

from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.nifti.geometry import Geometry
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.scoring.components import find_components
from mtf_imaging.evaluation.scoring.lesions import Lesion, find_lesions
from mtf_imaging.evaluation.scoring.official import OfficialCase, official_case
from mtf_imaging.evaluation.scoring.overlap import MASKS, Overlap, label_overlaps
from mtf_imaging.evaluation.scoring.surface import SurfaceDistances, surface_distances

DETECTED = 0.5  # default: a lesion with a larger intersection over union counts as detected


@dataclass(frozen=True)
class CaseScore:
    """The scores of one case.

    Attributes:
      key: the key of the case.
      overlaps: `{"liver": Overlap, "lesion": Overlap}` of the whole masks.
      distances: `{"liver": SurfaceDistances, "lesion": SurfaceDistances}`, in mm; None if a mask is empty.
      lesions: the single lesions of the reference and of the prediction.
      official: the values that the challenge's original program collects from the case.
    """

    key: str
    overlaps: dict[str, Overlap]
    distances: dict[str, SurfaceDistances | None]
    lesions: list[Lesion]
    official: OfficialCase

    @property
    def detected(self) -> list[Lesion]:
        """The lesions detected at an intersection over union above 0.5."""
        return [lesion for lesion in self.lesions if lesion.is_detected(DETECTED)]

    @property
    def burden(self) -> tuple[float, float] | None:
        """Lesion voxels / liver voxels of prediction and reference; None if one of them has no liver."""
        lesion, liver = self.overlaps["lesion"], self.overlaps["liver"]
        if not liver.prediction or not liver.reference:
            return None
        return lesion.prediction / liver.prediction, lesion.reference / liver.reference


def score_case(
    key: str,
    prediction: np.ndarray,
    reference: np.ndarray,
    spacing: tuple[float, float, float],
    file: Geometry | None = None,
) -> CaseScore:
    """Scores a case.

    Args:
      key: the key of the case.
      prediction: labels `[x, y, z]` of the prediction, 0 background, 1 liver, 2 lesion.
      reference: labels `[x, y, z]` of the reference.
      spacing: voxel size in mm.
      file: geometry of the reference's file. The official scores use its stored axes and the voxel size of its header.
        None means that the arrays have the stored axes and `spacing` is the header's.

    Raises:
      DataError: the arrays differ in shape.
    """
    if prediction.shape != reference.shape:
        raise DataError(
            f"case '{key}': the prediction has shape {prediction.shape} and the reference {reference.shape}. "
            "Fix: segment at the shape of the reference."
        )
    distances = {name: surface_distances(mask(prediction), mask(reference), spacing) for name, mask in MASKS.items()}
    components = find_components(*(MASKS["lesion"](labels) for labels in (prediction, reference)))
    lesions = find_lesions(components, spacing)
    if file is None:
        official = official_case(prediction, reference, spacing, distances["liver"])
    else:
        same_size = np.allclose(file.header_spacing, file.stored_spacing) and np.allclose(file.spacing, spacing)
        official = official_case(
            file.to_stored(prediction),
            file.to_stored(reference),
            file.header_spacing,
            distances["liver"] if same_size else None,
        )
    return CaseScore(key, label_overlaps(prediction, reference), distances, lesions, official)
