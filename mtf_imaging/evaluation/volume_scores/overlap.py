"""Overlap measures of two masks: Dice, Jaccard, volumetric overlap error, relative volume difference."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtf_imaging.data.description.description import BACKGROUND, LITS, Description
from mtf_imaging.errors import DataError
from mtf_imaging.evaluation.volume_scores.voxels import Voxels, slabs, whole


@dataclass(frozen=True)
class Overlap:
    """Voxel counts of a predicted and a reference mask.

    Attributes:
      intersection: voxels in both.
      prediction: voxels of the predicted mask.
      reference: voxels of the reference mask.
    """

    intersection: int
    prediction: int
    reference: int

    @property
    def union(self) -> int:
        return self.prediction + self.reference - self.intersection

    @property
    def dice(self) -> float:
        """2 * intersection / (prediction + reference); 1 if both masks are empty, because that prediction is correct.

        >>> Overlap(0, 0, 0).dice, Overlap(0, 5, 0).dice, Overlap(2, 4, 4).dice
        (1.0, 0.0, 0.5)
        """
        total = self.prediction + self.reference
        return 2 * self.intersection / total if total else 1.0

    @property
    def jaccard(self) -> float:
        """Intersection / union; 1 if both masks are empty."""
        return self.intersection / self.union if self.union else 1.0

    @property
    def voe(self) -> float:
        """Volumetric overlap error, 1 - `jaccard`."""
        return 1.0 - self.jaccard

    @property
    def rvd(self) -> float | None:
        """Relative volume difference, (prediction - reference) / reference; positive if the prediction is too large.

        The value is 0 if both masks are empty and None if only the reference is empty.
        """
        if self.reference:
            return (self.prediction - self.reference) / self.reference
        return None if self.prediction else 0.0

    def __add__(self, other: "Overlap") -> "Overlap":
        return Overlap(
            self.intersection + other.intersection,
            self.prediction + other.prediction,
            self.reference + other.reference,
        )

    def __sub__(self, other: "Overlap") -> "Overlap":
        return Overlap(
            self.intersection - other.intersection,
            self.prediction - other.prediction,
            self.reference - other.reference,
        )


NOTHING = Overlap(0, 0, 0)


def overlap(prediction: np.ndarray, reference: np.ndarray) -> Overlap:
    """Counts the voxels of two boolean arrays of the same shape."""
    return Overlap(*(int(np.count_nonzero(mask)) for mask in (prediction & reference, prediction, reference)))


def label_overlaps(prediction: Voxels, reference: Voxels, description: Description = LITS) -> dict[str, Overlap]:
    """Returns the mask overlaps of two segmentations, for LiTS `{"liver": Overlap, "lesion": Overlap}`.

    Args:
      prediction: labels of the prediction; an array, or another volume that can be read in parts.
      reference: labels of the reference, of the same shape.
      description: the meaning of the labels. Voxels whose reference label is the ignore label do not count.
    """
    overlaps = dict.fromkeys(description.masks, NOTHING)
    for region in slabs(whole(reference.shape)):
        pair = scored_labels(prediction[region], reference[region], description)
        for name in overlaps:
            overlaps[name] += overlap(*(description.mask(name, labels) for labels in pair))
    return overlaps


def scored_labels(
    prediction: np.ndarray, reference: np.ndarray, description: Description
) -> tuple[np.ndarray, np.ndarray]:
    """Returns prediction and reference with background at voxels that the reference excludes from scoring.

    Args:
      prediction: labels of the prediction.
      reference: labels of the reference, of the same shape.
      description: the meaning of the labels.

    Returns:
      The labels of the prediction and of the reference; the unchanged arguments if no voxel is excluded.
    """
    excluded = reference == description.ignore if description.ignore is not None else None
    if excluded is None or not excluded.any():
        return prediction, reference
    background = np.asarray(BACKGROUND, reference.dtype)
    return tuple(np.where(excluded, background, labels) for labels in (prediction, reference))


def check_scored(path: Path, reference: Voxels, description: Description) -> None:
    """Checks that the reference of a case has a voxel that counts.

    Args:
      path: the file of the reference.
      reference: its labels.
      description: the meaning of the labels.

    Raises:
      DataError: all voxels have the ignore label. Both masks would be empty, and the case would have a perfect score.
    """
    ignore = description.ignore
    if ignore is not None and all((reference[part] == ignore).all() for part in slabs(whole(reference.shape))):
        raise DataError(
            f"{path}: all voxels of this reference have the ignore label {ignore}, so the case has no score. "
            "Fix: leave this case out, or label it."
        )


def mean(values: Iterable[float]) -> float:
    """Returns the mean of one or more numbers; their order does not change the result."""
    values = list(values)
    return math.fsum(values) / len(values)


def dice_text(overlaps: dict[str, Overlap]) -> str:
    """Formats the Dice of each mask: `liver 0.951, lesion 0.632`."""
    return ", ".join(f"{name} {counts.dice:.3f}" for name, counts in overlaps.items())
