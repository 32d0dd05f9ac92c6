"""Lesions one by one: which reference lesions are detected, and which predicted lesions are false."""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from mtf_imaging.evaluation.scoring.components import Components
from mtf_imaging.evaluation.scoring.overlap import Overlap, overlap
from mtf_imaging.evaluation.scoring.surface import SurfaceDistances, around, surface_distances

# By the diameter of a sphere of the same volume, in mm.
SIZE_BINS = {"below 10 mm": (0.0, 10.0), "10 to 20 mm": (10.0, 20.0), "above 20 mm": (20.0, np.inf)}


@dataclass(frozen=True)
class Lesion:
    """A lesion of the reference, the prediction, or both; several that one of the other mask spans count as one.

    Attributes:
      overlap: voxels of the predicted and of the reference part; one of them may be 0.
      distances: between their surfaces, where both are there.
      diameter: in mm, of the sphere that has the volume of the reference part, or of the predicted one where there is
        no reference.
    """

    overlap: Overlap
    distances: SurfaceDistances | None
    diameter: float

    @property
    def size_bin(self) -> str:
        """A key of `SIZE_BINS`."""
        return next(name for name, (low, high) in SIZE_BINS.items() if low <= self.diameter < high)

    def is_detected(self, iou: float) -> bool:
        """Whether the parts' intersection over union is above `iou`."""
        return self.overlap.intersection > 0 and self.overlap.jaccard > iou


def find_lesions(components: Components, spacing: tuple[float, float, float]) -> list[Lesion]:
    """Pairs predicted lesions with reference lesions, and merges lesions that a lesion of the other mask connects.

    First, reference components that have their largest overlap with the same predicted component are merged. Each
    predicted component is then assigned to the reference lesion with which it shares the most voxels, and all
    components assigned to one lesion are merged. If overlaps are equal, the first component wins.

    Args:
      components: the lesions of prediction and reference.
      spacing: voxel size in mm.

    Returns:
      The lesions after merging: first the reference lesions, then predicted lesions without overlap.
    """
    of_found, of_real = _lesion_numbers(components.shared)
    found = np.concatenate([[0], of_found])[components.prediction]
    real = np.concatenate([[0], of_real])[components.reference]
    number = max([*of_found, *of_real], default=0)
    boxes = zip(*(ndimage.find_objects(labels, number) for labels in (found, real)), strict=True)
    return [_lesion(found, real, n, around(*pair), spacing) for n, pair in enumerate(boxes, start=1)]


def _lesion_numbers(shared):
    """Which lesion, from 1 on, each predicted and each reference component is part of."""
    # A reference component belongs to the predicted one that it shares most with, or is alone.
    groups = [("spanned", best) if n else ("alone", r) for r, (best, n) in enumerate(_best(shared.T))]
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups), start=1)}
    of_real = np.array([numbers[group] for group in groups], np.int64)
    merged = np.zeros((len(shared), len(numbers)), np.int64)
    for r, number in enumerate(of_real):
        merged[:, number - 1] += shared[:, r]
    more = itertools.count(len(numbers) + 1)
    of_found = np.array([best + 1 if n else next(more) for best, n in _best(merged)], np.int64)
    return of_found, of_real


def _best(shared):
    """For each row the column of its largest number, the first of equal ones, and that number."""
    if not shared.shape[1]:
        return [(0, 0)] * len(shared)
    best = shared.argmax(axis=1)
    return list(zip(best.tolist(), shared[np.arange(len(shared)), best].tolist(), strict=True))


def _lesion(found, real, number, box, spacing):
    prediction, reference = found[box] == number, real[box] == number
    counts = overlap(prediction, reference)
    volume = (counts.reference or counts.prediction) * float(np.prod(spacing))
    distances = surface_distances(prediction, reference, spacing)
    return Lesion(counts, distances, float((6 * volume / np.pi) ** (1 / 3)))
