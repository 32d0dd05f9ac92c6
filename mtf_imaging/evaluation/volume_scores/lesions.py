"""Scores groups of components, and detects single lesions: pairs predicted lesions with reference lesions."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mtf_imaging.evaluation.volume_scores.components import Components
from mtf_imaging.evaluation.volume_scores.overlap import Overlap
from mtf_imaging.evaluation.volume_scores.surface import SurfaceDistances, distances_between, surface_voxels


def score_groups(
    components: Components,
    predicted: np.ndarray,
    reference: np.ndarray,
    groups: Iterable[int],
    spacing: Sequence[float],
    tolerance: float | None = None,
) -> list[tuple[Overlap, SurfaceDistances | None]]:
    """Scores groups of predicted and reference components, each as one structure.

    Args:
      components: the components.
      predicted: int64 `[predicted components + 1]`, the group of each predicted component; 0 for no group.
      reference: int64 `[reference components + 1]`, the group of each reference component.
      groups: the groups to score.
      spacing: voxel size in mm.
      tolerance: the surface Dice tolerance in mm; None skips it.

    Returns:
      (overlap, surface distances) for each group; the distances are None if the prediction or the reference has no
      component in the group.
    """
    groups = [int(group) for group in groups]
    kinds = components.prediction, components.reference
    kept = [np.where(np.isin(table, groups), table, 0) for table in (predicted, reference)]
    sizes = [_total(table, kind.sizes) for table, kind in zip(kept, kinds, strict=True)]
    rows, columns = components.shared.nonzero()
    same = kept[0][rows + 1] == kept[1][columns + 1]
    shared = _total(kept[0][rows[same] + 1], components.shared[rows[same], columns[same]])
    surfaces = [surface_voxels(kind.slabs(table)) for table, kind in zip(kept, kinds, strict=True)]
    scores = []
    for group in groups:
        counts = Overlap(shared.get(group, 0), *(size.get(group, 0) for size in sizes))
        pair = (surface.get(group) for surface in surfaces)
        scores.append((counts, distances_between(*pair, spacing, tolerance)))
    return scores


def _total(groups: np.ndarray, values: np.ndarray) -> dict[int, int]:
    """Returns the sum of values in each group."""
    names, at = np.unique(groups, return_inverse=True)
    totals = np.zeros(len(names), np.int64)
    np.add.at(totals, at, values)
    return dict(zip(names.tolist(), totals.tolist(), strict=True))


# (low, high) diameter in mm of a sphere with the same volume
SIZE_BINS = {"below 10 mm": (0.0, 10.0), "10 to 20 mm": (10.0, 20.0), "above 20 mm": (20.0, np.inf)}


@dataclass(frozen=True)
class Lesion:
    """A lesion of the reference, the prediction, or both.

    Lesions that one lesion in the other mask connects are merged and count as one.

    Attributes:
      overlap: voxel counts of prediction and reference; one of them may be 0.
      distances: surface distances between prediction and reference; None if one of them is empty.
      diameter: diameter in mm of a sphere with the volume of the reference lesion, or of the predicted lesion if the
        reference has none. In a 2-D image, the diameter of a circle with the same area.
    """

    overlap: Overlap
    distances: SurfaceDistances | None
    diameter: float

    @property
    def size_bin(self) -> str:
        """The size of the lesion, a key of `SIZE_BINS`."""
        return next(name for name, (low, high) in SIZE_BINS.items() if low <= self.diameter < high)

    def is_detected(self, iou: float) -> bool:
        """Returns whether the intersection over union of prediction and reference is above `iou`."""
        return self.overlap.intersection > 0 and self.overlap.jaccard > iou


def find_lesions(components: Components, spacing: Sequence[float], tolerance: float | None = None) -> list[Lesion]:
    """Pairs predicted and reference lesions, and merges lesions that one lesion in the other mask connects.

    First, reference components that have their largest overlap with the same predicted component are merged. Each
    predicted component is then assigned to the reference lesion with which it shares the most voxels, and all
    components assigned to one lesion are merged. If overlaps are equal, the first component wins.

    Args:
      components: the lesions of prediction and reference.
      spacing: voxel size in mm.
      tolerance: the surface Dice tolerance in mm; None skips it.

    Returns:
      The lesions after merging: first the reference lesions, then predicted lesions without overlap.
    """
    tables = [np.concatenate([[0], numbers]) for numbers in _lesion_numbers(components.shared)]
    numbers = range(1, 1 + max(int(table.max()) for table in tables))
    lesions = []
    for counts, distances in score_groups(components, *tables, numbers, spacing, tolerance):
        volume = (counts.reference or counts.prediction) * float(np.prod(spacing))
        lesions.append(Lesion(counts, distances, _diameter(volume, len(spacing))))
    return lesions


def _lesion_numbers(shared):
    """Returns the lesion number, from 1, of each predicted and each reference component."""
    # A reference component joins the predicted component with the largest overlap; without overlap it stays alone.
    groups = [("spanned", best) if n else ("alone", r) for r, (best, n) in enumerate(_best(shared.T))]
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups), start=1)}
    reference_numbers = np.array([numbers[group] for group in groups], np.int64)
    merged = np.zeros((len(shared), len(numbers)), np.int64)
    for r, number in enumerate(reference_numbers):
        merged[:, number - 1] += shared[:, r]
    more = itertools.count(len(numbers) + 1)
    predicted_numbers = np.array([best + 1 if n else next(more) for best, n in _best(merged)], np.int64)
    return predicted_numbers, reference_numbers


def _best(shared):
    """Returns (column, value) of the largest entry of each row; the first column wins a tie."""
    if not shared.shape[1]:
        return [(0, 0)] * len(shared)
    best = shared.argmax(axis=1)
    return list(zip(best.tolist(), shared[np.arange(len(shared)), best].tolist(), strict=True))


def _diameter(volume: float, num_axes: int) -> float:
    """Returns the diameter of a ball with this volume, area or length."""
    if num_axes == 3:
        return float((6 * volume / np.pi) ** (1 / 3))
    return float(2 * (volume / np.pi) ** (1 / 2)) if num_axes == 2 else volume
