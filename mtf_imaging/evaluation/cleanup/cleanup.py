"""Cleanup rules for a segmentation: the LiTS rules (one liver, no lesions outside it) and rules for any labels.

Rules are off by default, unless they were chosen on held-out cases, because they remove labels that the network
predicted. The labels are read in slabs, as in scoring.
"""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mtf_imaging.data.description.description import LITS, LITS_RULES, Description
from mtf_imaging.data.images.compact_labels import CompactLabels
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.cleanup.rule_kinds import INSIDE, LARGEST, THRESHOLD, apply_rule
from mtf_imaging.evaluation.cleanup.rule_text import Rule, components_in_slabs, parse_rules
from mtf_imaging.evaluation.cleanup.stored_choice import read_rules
from mtf_imaging.evaluation.cleanup.thresholds import factors
from mtf_imaging.evaluation.volume_scores.voxels import slabs, whole
from mtf_imaging.settings.inference import STORED, CleanupSettings
from mtf_imaging.settings.setting import documented

Labels = TypeVar("Labels", np.ndarray, CompactLabels)  # uint8 [x, y, z]
NONE = "none"
# {setting: the rule as `Rule.resolved` describes it}. As in the challenge, lesions are part of the liver, and voxels
# are connected through faces. A lesion replaces the tissue around it, so it is inside the liver if they share a face.
_LITS_RULES = {
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
        """The rules for components as JSON values that name labels, for programs without the description."""
        lits = [{"rule": name, **_LITS_RULES[name]} for name in self._lits_rules]
        return [*lits, *(rule.resolved for rule in self.rules if rule.kind != THRESHOLD)]

    @property
    def thresholds(self) -> list[str]:
        """The rules for probabilities as text, such as ["lesion=threshold:0.2"]."""
        return [str(rule) for rule in self.rules if rule.kind == THRESHOLD]

    def factors(self, description: Description) -> np.ndarray | None:
        """Returns the factors of the probabilities before labels are chosen; see `thresholds.factors`."""
        return factors(self.rules, description)

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
        for rule in self.resolved:
            before = _num_labeled(labels)
            labels = apply_rule(labels, rule, spacing, components_in_slabs)
            removed = before - _num_labeled(labels)
            volume = removed * np.prod(spacing)
            _log.info("%s: the rule %s removed %d voxels, %.0f mm^3", path, rule["rule"], removed, volume)
        return labels


AS_FOUND = Cleanup()


def as_cleanup(cleanup: CleanupSettings | str | None) -> Cleanup:
    """Returns the value of the setting `cleanup` as a `Cleanup`."""
    if isinstance(cleanup, str):
        return Cleanup(cleanup_rules=cleanup)
    return cleanup if isinstance(cleanup, Cleanup) else AS_FOUND


def _num_labeled(labels: Labels) -> int:
    return sum(np.count_nonzero(labels[region]) for region in slabs(whole(labels.shape)))
