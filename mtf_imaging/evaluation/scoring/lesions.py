"""Lesions one by one: which lesions of the reference were found, and which findings are none."""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from mtf_imaging.evaluation.scoring.overlap import Overlap, overlap
from mtf_imaging.evaluation.scoring.surface import SurfaceDistances, around, bounding_box, surface_distances

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


def find_lesions(prediction: np.ndarray, reference: np.ndarray, spacing: tuple[float, float, float]) -> list[Lesion]:
    """Pairs predicted lesions with those of the reference, as the challenge's scorer does.

    Lesions are components of voxels that touch by faces. Those of the reference whose largest overlap is with the same
    predicted one are merged. Then each predicted lesion goes to the reference lesion, merged or not, with which it
    shares most voxels; all that go to the same one are merged. (Equal overlaps: the component that comes first.)

    Args:
      prediction: bool `[x, y, z]`, the predicted lesions.
      reference: the same of the reference.
      spacing: voxel size in mm.

    Returns:
      The lesions after merging: those of the reference first, then predictions that overlap none.
    """
    box = bounding_box(prediction | reference)
    if box is None:
        return []
    (found, num_found), (real, num_real) = (ndimage.label(mask[box]) for mask in (prediction, reference))
    of_found, of_real = _lesion_numbers(_shared_voxels(found, num_found, real, num_real))
    found, real = np.concatenate([[0], of_found])[found], np.concatenate([[0], of_real])[real]
    number = max(*of_found, *of_real, 0)
    boxes = zip(*(ndimage.find_objects(labels, number) for labels in (found, real)), strict=True)
    return [_lesion(found, real, n, around(*pair), spacing) for n, pair in enumerate(boxes, start=1)]


def _shared_voxels(found, num_found, real, num_real):
    """int64 `[predicted components, reference components]`: the voxels that each pair shares."""
    both = (found > 0) & (real > 0)
    pairs = (found[both].astype(np.int64) - 1) * num_real + (real[both] - 1)
    return np.bincount(pairs, minlength=num_found * num_real).reshape(num_found, num_real)


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
