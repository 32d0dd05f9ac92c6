"""Removes the components of a mask that a rule does not keep. Rules are JSON values, as in `Rule.resolved`.

An exported network brings these functions along in its program, so they need only NumPy and SciPy.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

LARGEST, MIN_VOLUME, INSIDE = "largest", "min_volume", "inside"
KINDS = (LARGEST, MIN_VOLUME, INSIDE)
THRESHOLD = "threshold"  # a rule for probabilities, not for components
CONNECTIVITY = {6: 1, 26: 3}  # {number of neighbors: argument of `ndimage.generate_binary_structure`}

Components = tuple[np.ndarray, Callable[[], Iterable[tuple[tuple[slice, ...], np.ndarray]]]]


def whole_components(labels: np.ndarray, values: Collection[int], neighbors: int) -> Components:
    """Finds the components of the voxels with one of several labels, where a voxel has 6 or 26 neighbors.

    Returns:
      The number of voxels in each component, `[components + 1]`; they are numbered from 1 in the order of their first
      voxels. And a function that returns pairs of a region and the component number, or 0, of each voxel in it.
    """
    from scipy import ndimage

    structure = ndimage.generate_binary_structure(3, CONNECTIVITY[neighbors])
    numbers, count = ndimage.label(is_one_of(labels, values), structure)
    everything = tuple(slice(0, size) for size in labels.shape)
    return np.bincount(numbers.ravel(), minlength=count + 1), lambda: [(everything, numbers)]


def apply_rule(
    labels: Any,
    rule: Mapping[str, Any],
    spacing: Sequence[float],
    find_components: Callable[[Any, Collection[int], int], Components] = whole_components,
) -> Any:
    """Sets the voxels of the components that a rule removes to background.

    Args:
      labels: uint8 `[x, y, z]`, along the canonical axes; an array, or another volume that can be read in parts.
      rule: it is for the components of the voxels with one of its `labels`, where a voxel has 6 or 26 `neighbors`. Its
        `kind` is "largest", which keeps the largest component, the first one of equal sizes; "min_volume", which keeps
        components of at least `volume_ml`; or "inside", which keeps components with a voxel that neighbors one of the
        `container_labels`.
      spacing: voxel size in mm.
      find_components: a function like `whole_components`.

    Returns:
      The remaining labels, of the same type; `labels` itself if nothing is removed.
    """
    sizes, parts = find_components(labels, rule["labels"], rule["neighbors"])
    touches = np.zeros(len(sizes), bool)
    if rule["kind"] == INSIDE:
        for region, numbers in parts():
            touches[numbers[near(labels, region, rule["container_labels"], rule["neighbors"])]] = True
    keeps = kept_components(rule, sizes[1:] * voxel_ml(spacing), touches[1:])
    if keeps.all():
        return labels
    stays = np.concatenate([[True], keeps])  # number 0 is everything except the components
    result = labels.copy()
    for region, numbers in parts():
        result[region] = np.where(stays[numbers], labels[region], 0)
    return result


def kept_components(rule: Mapping[str, Any], volumes: np.ndarray, touches: np.ndarray) -> np.ndarray:
    """Returns a mask of the components that a rule keeps, bool `[components]`.

    Args:
      rule: see `apply_rule`.
      volumes: `[components]`, in mL, in the order of the first voxels.
      touches: bool `[components]`, whether each component has a voxel that neighbors one of the `container_labels`.
    """
    if rule["kind"] == LARGEST:
        return np.arange(len(volumes)) == (np.argmax(volumes) if len(volumes) else 0)
    return touches if rule["kind"] == INSIDE else volumes >= rule["volume_ml"]


def near(labels: Any, region: tuple[slice, ...], values: Collection[int], neighbors: int) -> np.ndarray:
    """Returns a mask of the voxels in a region that have, or neighbor, one of several labels, bool."""
    from scipy import ndimage

    wide = tuple(slice(max(at.start - 1, 0), min(at.stop + 1, n)) for at, n in zip(region, labels.shape, strict=True))
    structure = ndimage.generate_binary_structure(3, CONNECTIVITY[neighbors])
    grown = ndimage.binary_dilation(is_one_of(labels[wide], values), structure)
    return grown[tuple(slice(at.start - w.start, at.stop - w.start) for at, w in zip(region, wide, strict=True))]


def is_one_of(labels: np.ndarray, values: Collection[int]) -> np.ndarray:
    """Returns a mask of the voxels with one of several labels, bool of the same shape."""
    mask = np.zeros(labels.shape, bool)
    for value in values:
        mask |= labels == value
    return mask


def voxel_ml(spacing: Sequence[float]) -> float:
    """Returns the volume of a voxel in mL, given its size in mm."""
    return math.prod(spacing) / 1000
