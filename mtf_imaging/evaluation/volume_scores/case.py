"""The scores of one case."""

from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.volume_scores.components import find_components
from mtf_imaging.evaluation.volume_scores.lesions import Lesion, find_lesions
from mtf_imaging.evaluation.volume_scores.official import OfficialCase, official_case
from mtf_imaging.evaluation.volume_scores.overlap import Overlap, label_overlaps, mean
from mtf_imaging.evaluation.volume_scores.surface import SurfaceDistances, distances_between
from mtf_imaging.evaluation.volume_scores.views import mask_surfaces, mask_view, scored_views, stored_view, without_axes
from mtf_imaging.evaluation.volume_scores.voxels import Voxels

DETECTED = 0.5  # default: a lesion with a larger intersection over union counts as detected
TOLERANCE_MM = 1.0  # default tolerance of the surface Dice
_MM3_PER_ML = 1000.0


@dataclass(frozen=True)
class CaseScore:
    """The scores of one case.

    Attributes:
      key: the case key.
      overlaps: the voxel counts of each whole mask, for LiTS `{"liver": Overlap, "lesion": Overlap}`.
      distances: the surface distances of each whole mask, in mm; None if a mask is empty.
      lesions_by_mask: the single lesions in the reference and the prediction, for each mask that the description
        marks as lesions.
      official: the values that the challenge's original program collects from the case; None without the LiTS rules.
      voxel_ml: the volume of a voxel in mL.
      tolerance: the surface Dice tolerance in mm.
    """

    key: str
    overlaps: dict[str, Overlap]
    distances: dict[str, SurfaceDistances | None]
    lesions_by_mask: dict[str, list[Lesion]]
    official: OfficialCase | None
    voxel_ml: float
    tolerance: float = TOLERANCE_MM

    @property
    def lesions(self) -> list[Lesion]:
        """The single lesions of all masks."""
        return [lesion for lesions in self.lesions_by_mask.values() for lesion in lesions]

    @property
    def detected(self) -> list[Lesion]:
        """The lesions detected at an intersection over union above 0.5."""
        return [lesion for lesion in self.lesions if lesion.is_detected(DETECTED)]

    @property
    def mean_dice(self) -> float:
        """The mean Dice over the masks."""
        return mean(overlap.dice for overlap in self.overlaps.values())

    @property
    def burden(self) -> tuple[float, float] | None:
        """Lesion voxels / liver voxels in the prediction and the reference for LiTS; None if either has no liver."""
        lesion, liver = self.overlaps["lesion"], self.overlaps["liver"]
        if not liver.prediction or not liver.reference:
            return None
        return lesion.prediction / liver.prediction, lesion.reference / liver.reference


def score_case(
    key: str,
    prediction: Voxels,
    reference: Voxels,
    spacing: tuple[float, ...],
    file: Geometry | None = None,
    description: Description = LITS,
    tolerance: float = TOLERANCE_MM,
) -> CaseScore:
    """Scores a case.

    Args:
      key: the case key.
      prediction: labels `[x, y, z]` of the prediction, for LiTS 0 background, 1 liver, 2 lesion; an array, or another
        volume that can be read in parts, such as `CompactLabels` or a Zarr array.
      reference: labels of the reference, of the same shape.
      spacing: voxel size in mm.
      file: geometry of the reference's file. The official scores use its stored axes and the voxel size of its header.
        None means that the arrays have the stored axes and `spacing` is the header's.
      description: the meaning of the labels, and the scoring rules.
      tolerance: the largest distance in mm that the surface Dice accepts.

    Raises:
      DataError: prediction and reference differ in shape.
    """
    if prediction.shape != reference.shape:
        raise DataError(
            f"case '{key}': the prediction has shape {prediction.shape} and the reference {reference.shape}. "
            "Fix: segment at the shape of the reference."
        )
    prediction, reference = scored_views(prediction, reference, description)
    is_lits = description.rules == LITS_RULES
    flat = () if is_lits else _flat_axes(reference.shape)
    pair = [without_axes(labels, flat) for labels in (prediction, reference)]
    size = tuple(mm for axis, mm in enumerate(spacing) if axis not in flat)
    surfaces = [mask_surfaces(labels, description) for labels in pair]
    distances, lesions = {}, {}
    for name in description.masks:
        distances[name] = distances_between(*(each.get(name) for each in surfaces), size, tolerance)
        if name in description.lesions:
            masks = [mask_view(labels, description, name) for labels in pair]
            lesions[name] = find_lesions(find_components(*masks), size, tolerance)
    official = _official(prediction, reference, spacing, file, distances["liver"]) if is_lits else None
    overlaps = label_overlaps(prediction, reference, description)
    voxel_ml = float(np.prod(spacing)) / _MM3_PER_ML
    return CaseScore(key, overlaps, distances, lesions, official, voxel_ml, tolerance)


def _flat_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the axes with one voxel, but never all axes.

    Without these axes, the surface of a 2-D mask is its contour rather than all of its voxels.
    """
    kept = [axis for axis, length in enumerate(shape) if length > 1] or [0]
    return tuple(axis for axis in range(len(shape)) if axis not in kept)


def _official(prediction, reference, spacing, file, liver_distances) -> OfficialCase:
    """Returns the values of the challenge's original program, along the stored axes of the reference's file."""
    if file is None:
        return official_case(prediction, reference, spacing, liver_distances)
    same_size = np.allclose(file.header_spacing, file.stored_spacing) and np.allclose(file.spacing, spacing)
    return official_case(
        stored_view(prediction, file),
        stored_view(reference, file),
        file.header_spacing,
        liver_distances if same_size else None,
    )
