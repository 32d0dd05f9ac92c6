"""Boundary F, the agreement of class boundaries (Csurka et al. 2013, BMVC 32.1)."""

import math

import numpy as np
from scipy import spatial

from mtf_imaging.errors import ConfigError

TOLERANCE = 0.0075  # share of the image diagonal, as in the paper
_ROUNDING = 1e-9  # bound on the rounding error of a distance in pixels
_LOWER, _UPPER = slice(None, -1), slice(1, None)  # all pixels along an axis except the last, and their next neighbors


def boundary_f(
    prediction: np.ndarray,
    reference: np.ndarray,
    num_classes: int,
    ignore_label: int = 255,
    tolerance: float = TOLERANCE,
) -> list[float | None]:
    """Returns the boundary F of each class in a photo.

    The boundary of a class consists of its pixels with a neighbor above, below, left or right in another class. The
    edges of the photo do not count as boundaries. Pixels with the ignore label in the reference belong to no class in
    either image. Precision is the share of predicted boundary pixels whose distance to the reference boundary is at
    most the tolerance, recall is the same with both images exchanged, and F = 2 P R / (P + R).

    Args:
      prediction: classes `[height, width]`.
      reference: classes and the ignore label, `[height, width]`.
      num_classes: the number of classes.
      ignore_label: the reference label whose pixels do not count.
      tolerance: the largest distance of matching boundaries, as a share of the photo's diagonal.

    Returns:
      A value for each class; None if the reference does not have the class.

    Raises:
      ConfigError: the tolerance is not above 0 and below 1.
    """
    if not 0 < tolerance < 1:
        raise ConfigError(
            f"tolerance = {tolerance!r} must be a share of the image diagonal, above 0 and below 1. "
            f"Fix: use {TOLERANCE}, the value of Csurka et al. 2013."
        )
    counted = reference != ignore_label
    pixels = tolerance * math.hypot(*reference.shape)
    # Ignored pixels get a label that no class has.
    images = [np.where(counted, labels, num_classes).astype(np.int64) for labels in (prediction, reference)]
    first, second = (_boundary_points(labels, num_classes) for labels in images)
    areas = [np.bincount(labels.ravel(), minlength=num_classes + 1) for labels in images]
    values: list[float | None] = [None] * num_classes
    for label in range(num_classes):
        if not areas[1][label]:
            continue
        if len(first[label]) and len(second[label]):
            values[label] = _f(first[label], second[label], pixels)
        else:  # a class without a boundary is absent or fills the photo
            values[label] = float(areas[0][label] == areas[1][label] == reference.size)
    return values


def _boundary_points(labels: np.ndarray, num_classes: int) -> list[np.ndarray]:
    """Returns the boundary pixels of each class, `[points, 2]`: pixels whose label differs from a neighbor's."""
    is_boundary = np.zeros(labels.shape, bool)
    for axis in range(2):
        lower, upper = (tuple(part if a == axis else slice(None) for a in range(2)) for part in (_LOWER, _UPPER))
        differs = labels[lower] != labels[upper]
        is_boundary[lower] |= differs
        is_boundary[upper] |= differs
    points = np.argwhere(is_boundary)
    of_points = labels[is_boundary]
    return [points[of_points == label] for label in range(num_classes)]


def _f(prediction: np.ndarray, reference: np.ndarray, pixels: float) -> float:
    """Returns the boundary F of two boundaries `[points, 2]`."""
    precision, recall = _share_near(prediction, reference, pixels), _share_near(reference, prediction, pixels)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _share_near(points: np.ndarray, others: np.ndarray, pixels: float) -> float:
    """Returns the share of points whose nearest point in the other set is at most this many pixels away."""
    distances, _ = spatial.cKDTree(others).query(points, distance_upper_bound=pixels + 1)  # infinite beyond this bound
    return float((distances <= pixels + _ROUNDING).mean())
