"""Overlaps and surface distances of groups of components."""

from collections.abc import Iterable, Sequence

import numpy as np

from mtf_imaging.evaluation.scoring.components import Components, MaskComponents
from mtf_imaging.evaluation.scoring.overlap import Overlap
from mtf_imaging.evaluation.scoring.surface import SurfaceDistances, point_distances, surface_voxels


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
    surfaces = [_surfaces(kind, table) for table, kind in zip(kept, kinds, strict=True)]
    scores = []
    for group in groups:
        counts = Overlap(shared.get(group, 0), *(size.get(group, 0) for size in sizes))
        scores.append((counts, _distances(*(surface.get(group) for surface in surfaces), spacing, tolerance)))
    return scores


def _total(groups: np.ndarray, values: np.ndarray) -> dict[int, int]:
    """Returns the sum of values in each group."""
    names, at = np.unique(groups, return_inverse=True)
    totals = np.zeros(len(names), np.int64)
    np.add.at(totals, at, values)
    return dict(zip(names.tolist(), totals.tolist(), strict=True))


def _surfaces(kind: MaskComponents, table: np.ndarray) -> dict[int, np.ndarray]:
    return surface_voxels(kind.slabs(table)) if table.any() else {}


def _distances(
    predicted: np.ndarray | None, reference: np.ndarray | None, spacing: Sequence[float], tolerance: float | None
) -> SurfaceDistances | None:
    """Measures the distances in mm between two surfaces given by voxel indices."""
    if predicted is None or reference is None:
        return None
    origin = np.minimum(predicted.min(axis=0), reference.min(axis=0))
    points = ((voxels - origin) * np.asarray(spacing, np.float64) for voxels in (predicted, reference))
    return point_distances(*points, tolerance)
