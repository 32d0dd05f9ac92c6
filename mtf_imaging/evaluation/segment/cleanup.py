"""Rules of anatomy that a segmentation may be made to obey: one liver, and lesions in it.

Both are choices, off by default: they remove what a network found. Components are of voxels that touch by faces, as in
the challenge's scorer. Work is done within the bounding box of the labels, plane by plane, in at most 8 bytes a voxel
of that.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage

from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.scoring.surface import bounding_box

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cleanup:
    """What is done with the labels of a whole volume before they are scored or written, in this order.

    Attributes:
      largest_liver: whether `keep_largest_liver` is.
      lesions_in_liver: whether `drop_lesions_outside` is.
    """

    largest_liver: bool = False
    lesions_in_liver: bool = False

    def __post_init__(self):
        for name in ("largest_liver", "lesions_in_liver"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(
                    f"{name} = {getattr(self, name)!r} is neither True nor False. Fix: one of them.", settings=[name]
                )

    def __call__(self, labels: np.ndarray, spacing: tuple[float, float, float], path: Path) -> np.ndarray:
        """Returns the labels that are left, and logs how many were removed.

        Args:
          labels: uint8 `[x, y, z]`.
          spacing: voxel size in mm.
          path: the volume's file, for the log.
        """
        for chosen, function, what in (
            (self.largest_liver, keep_largest_liver, "liver and lesions apart from the largest liver"),
            (self.lesions_in_liver, drop_lesions_outside, "lesions that touch no liver"),
        ):
            if chosen:
                before = np.count_nonzero(labels)
                labels = function(labels)
                removed = before - np.count_nonzero(labels)
                _log.info("%s: removed %d voxels, %.0f mm^3, of %s", path, removed, removed * np.prod(spacing), what)
        return labels


AS_FOUND = Cleanup()


def keep_largest_liver(labels: np.ndarray) -> np.ndarray:
    """Keeps the largest component of the liver, and sets all else to background.

    A lesion is liver, as the challenge has it, so the component is one of labels 1 and 2, and keeps both. Of components
    of the same size the one whose first voxel comes first stays, in the order of x, then y, then z; as labels are in
    canonical axes, that does not depend on how a file is stored.

    >>> keep_largest_liver(np.array([[[1, 1, 2, 0, 2, 2, 0, 1]]], np.uint8))
    array([[[1, 1, 2, 0, 0, 0, 0, 0]]], dtype=uint8)

    Args:
      labels: uint8 `[x, y, z]`, 0 background, 1 liver, 2 lesion.

    Returns:
      The same of what is left; `labels` itself where that is all.
    """
    box = bounding_box(labels)
    if box is None:
        return labels
    components, number = ndimage.label(labels[box])
    if number == 1:
        return labels
    # By planes, for bincount makes 8 bytes of each number.
    sizes = sum(np.bincount(plane.ravel(), minlength=number + 1) for plane in components)
    largest = 1 + np.argmax(sizes[1:])
    kept = np.zeros_like(labels)
    np.copyto(kept[box], labels[box], where=components == largest)
    return kept


def drop_lesions_outside(labels: np.ndarray) -> np.ndarray:
    """Sets lesions to background that do not touch the liver.

    A lesion takes the place of the liver that it grows in, so "in the liver" means: a component of label 2 of which at
    least one voxel has a voxel of label 1 beside it, by a face. A lesion within the liver and one at its rim stay;
    one surrounded by background goes, and so do all lesions where there is no label 1 at all.

    >>> drop_lesions_outside(np.array([[[1, 1, 2, 2, 0, 2, 0]]], np.uint8))
    array([[[1, 1, 2, 2, 0, 0, 0]]], dtype=uint8)

    Args:
      labels: uint8 `[x, y, z]`, 0 background, 1 liver, 2 lesion.

    Returns:
      The same of what is left; `labels` itself where that is all.
    """
    box = bounding_box(labels == 2)
    if box is None:
        return labels
    box = tuple(slice(max(at.start - 1, 0), at.stop + 1) for at in box)  # with the voxels around lesions
    components, number = ndimage.label(labels[box] == 2)
    beside_liver = ndimage.binary_dilation(labels[box] == 1)  # by faces, with the liver itself
    stays = np.zeros(number + 1, bool)
    for plane, beside in zip(components, beside_liver):
        stays[plane[beside]] = True
    stays[0] = True  # what is no lesion
    if stays.all():
        return labels
    kept = labels.copy()
    for plane, component in zip(kept[box], components):
        plane[~stays[component]] = 0
    return kept
