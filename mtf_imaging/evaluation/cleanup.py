"""Cleanup rules for a segmentation: the LiTS rules (one liver, no lesions outside it) and rules for any labels.

Rules are off by default, unless they were chosen on held-out cases, because they remove labels that the network
predicted. In the LiTS rules, the voxels of a component are connected through faces, as in the challenge's scorer. The
functions read the labels in slabs, as scoring does.
"""

import functools
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import ndimage

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.mask_rules.rule import INSIDE, LARGEST, Rule, parse_rules
from mtf_imaging.evaluation.mask_rules.stored import read_rules
from mtf_imaging.evaluation.scoring.compact_labels import CompactLabels
from mtf_imaging.evaluation.scoring.components import mask_components
from mtf_imaging.evaluation.scoring.voxels import Region, VoxelView, slabs, whole
from mtf_imaging.settings.inference import STORED, CleanupSettings
from mtf_imaging.settings.setting import documented

Labels = TypeVar("Labels", np.ndarray, CompactLabels)  # uint8 [x, y, z]
NONE = "none"
_LITS_RULES = {  # {setting: the rule as `Rule.resolved` describes it}
    "largest_liver": {"kind": LARGEST, "labels": [1, 2], "neighbors": 6},
    "lesions_in_liver": {"kind": INSIDE, "labels": [2], "neighbors": 6, "container_labels": [1]},
}
_log = logging.getLogger(__name__)


@documented
@dataclass(frozen=True)
class Cleanup(CleanupSettings):
    """The rules to apply, in this order, to the labels of a whole volume before scoring or writing.

    Attributes:
      rules: the rules for any labels, which `resolve` derives from `cleanup_rules`.
    """

    rules: tuple[Rule, ...] = ()

    def check(self, description: Description) -> None:
        """Raises ConfigError if a LiTS rule is set for other labels."""
        chosen = self._lits_rules
        if chosen and description.labels != LITS.labels:
            raise ConfigError(
                f"{chosen[0]} = True: this rule is for the labels {', '.join(LITS.labels)}, but the labels are "
                f"{', '.join(description.labels)}. Fix: set it to False.",
                settings=chosen,
            )

    def resolve(self, description: Description, folder: str | Path | None = None) -> "Cleanup":
        """Returns the rules for a description.

        Args:
          description: the meaning of the labels.
          folder: the folder with the stored rules; None for none.

        Raises:
          ConfigError: a rule is invalid, or is for other labels.
          DataError: the file of stored rules is damaged, or its rules are for other labels.
        """
        if self.cleanup_rules == LITS_RULES:
            resolved = Cleanup(largest_liver=True, lesions_in_liver=True)
        elif self.cleanup_rules == NONE:
            resolved = AS_FOUND
        elif self.cleanup_rules != STORED:
            resolved = Cleanup(rules=parse_rules(self.cleanup_rules, description))
        elif self.largest_liver or self.lesions_in_liver or self.rules or folder is None:
            resolved = self
        else:
            resolved = Cleanup(rules=read_rules(folder, description))
        resolved.check(description)
        return resolved

    @property
    def names(self) -> list[str]:
        """The rules as text, such as ["liver=largest"]."""
        return [*self._lits_rules, *map(str, self.rules)]

    @property
    def resolved(self) -> list[dict[str, Any]]:
        """The rules as JSON values that name labels instead of masks, for programs without the description."""
        lits = [{"rule": name, **_LITS_RULES[name]} for name in self._lits_rules]
        return [*lits, *(rule.resolved for rule in self.rules)]

    @property
    def _lits_rules(self) -> list[str]:
        return [name for name in _LITS_RULES if getattr(self, name)]

    def __call__(self, labels: Labels, spacing: tuple[float, float, float], path: Path) -> Labels:
        """Applies the rules and logs how many voxels each one removes.

        Args:
          labels: uint8 `[x, y, z]`, an array or `CompactLabels`.
          spacing: voxel size in mm.
          path: path of the volume, for the log.

        Returns:
          The remaining labels, of the same type.
        """
        lits = (
            (self.largest_liver, keep_largest_liver, "liver and lesions outside the largest liver"),
            (self.lesions_in_liver, drop_lesions_outside, "lesions that do not touch the liver"),
        )
        applied = [(function, what) for is_chosen, function, what in lits if is_chosen]
        applied += [(functools.partial(rule, spacing=spacing), f"components ({rule})") for rule in self.rules]
        for function, what in applied:
            before = _num_labeled(labels)
            labels = function(labels)
            removed = before - _num_labeled(labels)
            _log.info("%s: removed %d voxels, %.0f mm^3, of %s", path, removed, removed * np.prod(spacing), what)
        return labels


AS_FOUND = Cleanup()


def as_cleanup(cleanup: CleanupSettings | str | None) -> Cleanup:
    """Returns the value of the setting `cleanup` as a `Cleanup`."""
    if isinstance(cleanup, str):
        return Cleanup(cleanup_rules=cleanup)
    return cleanup if isinstance(cleanup, Cleanup) else AS_FOUND


def keep_largest_liver(labels: Labels) -> Labels:
    """Keeps the largest component of the liver and sets all other voxels to background.

    Lesions are part of the liver, as in the challenge, so a component may contain labels 1 and 2 and keeps both. Among
    components of equal size, the one with the first voxel in x, then y, then z wins. Labels are in canonical axes, so
    the choice does not depend on the orientation of the file.

    >>> keep_largest_liver(np.array([[[1, 1, 2, 0, 2, 2, 0, 1]]], np.uint8))
    array([[[1, 1, 2, 0, 0, 0, 0, 0]]], dtype=uint8)

    Args:
      labels: uint8 `[x, y, z]`, an array or `CompactLabels`: 0 background, 1 liver, 2 lesion.

    Returns:
      The remaining labels, of the same type; `labels` itself if nothing is removed.
    """
    components = mask_components(VoxelView(labels.shape, lambda region: labels[region] > 0))
    if components.count <= 1:
        return labels
    largest = 1 + np.argmax(components.sizes[1:])
    result = labels.copy()
    for region, numbers in zip(slabs(components.box), components.slabs(), strict=True):
        result[region] = np.where(numbers == largest, labels[region], 0)
    return result


def drop_lesions_outside(labels: Labels) -> Labels:
    """Sets lesions that do not touch the liver to background.

    A lesion replaces the liver tissue around it, so a component of label 2 counts as inside the liver if at least one
    of its voxels shares a face with a voxel of label 1. Lesions within the liver and at its rim remain. Lesions
    surrounded by background are removed; if no voxel has label 1, all lesions are removed.

    >>> drop_lesions_outside(np.array([[[1, 1, 2, 2, 0, 2, 0]]], np.uint8))
    array([[[1, 1, 2, 2, 0, 0, 0]]], dtype=uint8)

    Args:
      labels: uint8 `[x, y, z]`, an array or `CompactLabels`: 0 background, 1 liver, 2 lesion.

    Returns:
      The remaining labels, of the same type; `labels` itself if nothing is removed.
    """
    lesions = mask_components(VoxelView(labels.shape, lambda region: labels[region] == 2))
    is_inside = np.zeros(lesions.count + 1, bool)
    is_inside[0] = True  # component 0 is everything except lesions
    for region, numbers in zip(slabs(lesions.box), lesions.slabs(), strict=True):
        is_inside[numbers[_near_liver(labels, region)]] = True
    if is_inside.all():
        return labels
    result = labels.copy()
    for region, numbers in zip(slabs(lesions.box), lesions.slabs(), strict=True):
        result[region] = np.where(is_inside[numbers], labels[region], 0)
    return result


def _near_liver(labels: Labels, region: Region) -> np.ndarray:
    """Returns a mask of the voxels in a region that belong to the liver or share a face with it, bool."""
    wide = tuple(slice(max(at.start - 1, 0), min(at.stop + 1, n)) for at, n in zip(region, labels.shape, strict=True))
    near = ndimage.binary_dilation(labels[wide] == 1)
    return near[tuple(slice(at.start - w.start, at.stop - w.start) for at, w in zip(region, wide, strict=True))]


def _num_labeled(labels: Labels) -> int:
    return sum(np.count_nonzero(labels[region]) for region in slabs(whole(labels.shape)))
