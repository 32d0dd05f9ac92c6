"""Boundary F, the agreement of class boundaries (Csurka et al. 2013, BMVC 32.1)."""

import math

import numpy as np
from scipy import ndimage

from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.scoring.surface import around, bounding_box

TOLERANCE = 0.0075  # share of the image diagonal, as in the paper
_ROUNDING = 1e-9  # bound on the rounding error of a distance in pixels


def boundary_f(
    prediction: np.ndarray,
    reference: np.ndarray,
    num_classes: int,
    ignore_label: int = 255,
    tolerance: float = TOLERANCE,
) -> list[float | None]:
    """Returns the boundary F of each class in a photo.

    The boundary of a class consists of its pixels with a neighbor above, below, left or right that is not of the class.
    The edges of the photo are no boundaries. Pixels with the ignore label in the reference belong to no class in either
    image. Precision is the share of the boundary pixels of the prediction whose distance to the boundary of the
    reference is at most the tolerance, recall is the same with both images exchanged, and F = 2 P R / (P + R).

    Args:
      prediction: classes `[height, width]`.
      reference: classes and the ignore label, `[height, width]`.
      num_classes: the number of classes.
      ignore_label: the label of the reference whose pixels do not count.
      tolerance: the largest distance of matching boundaries, as a share of the diagonal of the photo.

    Returns:
      A value for each class; None if the reference does not have the class.
    """
    counted = reference != ignore_label
    pixels = tolerance * math.hypot(*reference.shape) + _ROUNDING
    present = np.unique(reference[counted])
    values: list[float | None] = [None] * num_classes
    for label in present.tolist():
        values[label] = _f((prediction == label) & counted, (reference == label) & counted, pixels)
    return values


def check_boundary_tolerance(tolerance: float) -> float:
    """Checks that a tolerance is a share of the diagonal and returns it.

    Raises:
      ConfigError: it is not above 0 and below 1.
    """
    if not 0 < tolerance < 1:
        raise ConfigError(
            f"boundary_tolerance = {tolerance!r} must be a share of the image diagonal, above 0 and below 1. "
            f"Fix: use {TOLERANCE}, the value of Csurka et al. 2013.",
            settings=["boundary_tolerance"],
        )
    return tolerance


def class_boundary(mask: np.ndarray) -> np.ndarray:
    """Returns the pixels of a mask with a neighbor outside the mask but inside the photo, bool `[height, width]`."""
    return mask & ~ndimage.binary_erosion(mask, border_value=1)


def _f(prediction: np.ndarray, reference: np.ndarray, pixels: float) -> float:
    """Returns the boundary F of two masks; a mask without a boundary is empty or fills the photo."""
    first, second = class_boundary(prediction), class_boundary(reference)
    if not first.any() or not second.any():
        return float(np.array_equal(prediction, reference))
    box = around(bounding_box(first), bounding_box(second))
    first, second = first[box], second[box]
    precision, recall = _share_near(first, second, pixels), _share_near(second, first, pixels)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _share_near(points: np.ndarray, others: np.ndarray, pixels: float) -> float:
    """Returns the share of the points whose distance to the nearest other point is at most a number of pixels."""
    return float((ndimage.distance_transform_edt(~others)[points] <= pixels).mean())
