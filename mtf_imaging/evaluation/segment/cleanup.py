"""Optional anatomical rules for a segmentation: one liver, and no lesions outside it.

Both rules are off by default because they remove labels that the network predicted. The voxels of a component are
connected through faces, as in the challenge's scorer. The functions work plane by plane within the bounding box of the
labels and need at most 8 bytes per voxel of that box.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage

from mtf_imaging.data.cases.description import LITS, Description
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.scoring.surface import bounding_box

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cleanup:
    """The rules to apply, in this order, to the labels of a whole volume before scoring or writing.

    Attributes:
      largest_liver: whether to call `keep_largest_liver`.
      lesions_in_liver: whether to call `drop_lesions_outside`.
    """

    largest_liver: bool = False
    lesions_in_liver: bool = False

    def __post_init__(self):
        for name in ("largest_liver", "lesions_in_liver"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(
                    f"{name} = {getattr(self, name)!r} is neither True nor False. Fix: set it to one of these.",
                    settings=[name],
                )

    def check(self, description: Description) -> None:
        """Raises ConfigError if a rule is chosen and the labels are not those of LiTS."""
        chosen = [name for name in ("largest_liver", "lesions_in_liver") if getattr(self, name)]
        if chosen and description.labels != LITS.labels:
            raise ConfigError(
                f"{chosen[0]} = True: this rule is for the labels {', '.join(LITS.labels)}, but the labels are "
                f"{', '.join(description.labels)}. Fix: set it to False.",
                settings=chosen,
            )

    def __call__(self, labels: np.ndarray, spacing: tuple[float, float, float], path: Path) -> np.ndarray:
        """Applies the chosen rules and logs how many voxels each one removes.

        Args:
          labels: uint8 `[x, y, z]`.
          spacing: voxel size in mm.
          path: path of the volume, for the log.

        Returns:
          The remaining labels, uint8 `[x, y, z]`.
        """
        for is_chosen, function, what in (
            (self.largest_liver, keep_largest_liver, "liver and lesions outside the largest liver"),
            (self.lesions_in_liver, drop_lesions_outside, "lesions that do not touch the liver"),
        ):
            if is_chosen:
                before = np.count_nonzero(labels)
                labels = function(labels)
                removed = before - np.count_nonzero(labels)
                _log.info("%s: removed %d voxels, %.0f mm^3, of %s", path, removed, removed * np.prod(spacing), what)
        return labels


AS_FOUND = Cleanup()


def keep_largest_liver(labels: np.ndarray) -> np.ndarray:
    """Keeps the largest component of the liver and sets all other voxels to background.

    Lesions are part of the liver, as in the challenge, so a component may contain labels 1 and 2 and keeps both. Among
    components of equal size, the one with the first voxel in x, then y, then z wins. Labels are in canonical axes, so
    the choice does not depend on the orientation of the file.

    >>> keep_largest_liver(np.array([[[1, 1, 2, 0, 2, 2, 0, 1]]], np.uint8))
    array([[[1, 1, 2, 0, 0, 0, 0, 0]]], dtype=uint8)

    Args:
      labels: uint8 `[x, y, z]`, 0 background, 1 liver, 2 lesion.

    Returns:
      The remaining labels, uint8 `[x, y, z]`; `labels` itself if nothing is removed.
    """
    box = bounding_box(labels)
    if box is None:
        return labels
    components, number = ndimage.label(labels[box])
    if number == 1:
        return labels
    # One plane at a time, because bincount converts its input to 8 bytes per voxel.
    sizes = sum(np.bincount(plane.ravel(), minlength=number + 1) for plane in components)
    largest = 1 + np.argmax(sizes[1:])
    result = np.zeros_like(labels)
    np.copyto(result[box], labels[box], where=components == largest)
    return result


def drop_lesions_outside(labels: np.ndarray) -> np.ndarray:
    """Sets lesions that do not touch the liver to background.

    A lesion replaces the liver tissue around it, so a component of label 2 counts as inside the liver if at least one
    of its voxels shares a face with a voxel of label 1. Lesions within the liver and at its rim remain. Lesions
    surrounded by background are removed; if no voxel has label 1, all lesions are removed.

    >>> drop_lesions_outside(np.array([[[1, 1, 2, 2, 0, 2, 0]]], np.uint8))
    array([[[1, 1, 2, 2, 0, 0, 0]]], dtype=uint8)

    Args:
      labels: uint8 `[x, y, z]`, 0 background, 1 liver, 2 lesion.

    Returns:
      The remaining labels, uint8 `[x, y, z]`; `labels` itself if nothing is removed.
    """
    box = bounding_box(labels == 2)
    if box is None:
        return labels
    box = tuple(slice(max(at.start - 1, 0), at.stop + 1) for at in box)  # adds the neighbors of the lesions
    components, number = ndimage.label(labels[box] == 2)
    near_liver = ndimage.binary_dilation(labels[box] == 1)  # the liver and its face neighbors
    is_inside = np.zeros(number + 1, bool)
    for plane, is_near in zip(components, near_liver):
        is_inside[plane[is_near]] = True
    is_inside[0] = True  # component 0 is everything except lesions
    if is_inside.all():
        return labels
    result = labels.copy()
    for plane, component in zip(result[box], components):
        plane[~is_inside[component]] = 0
    return result
