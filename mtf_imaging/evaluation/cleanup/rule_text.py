"""Rules that remove components of a mask: all but the largest, small ones, or components outside another mask.

Another kind of rule sets the probability above which a mask is predicted; see `thresholds`.

Voxels that share a face, an edge or a corner are connected (26 neighbors), as in `ndimage.label` with a structure of
ones.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.compact_labels import CompactLabels
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.cleanup.rule_kinds import (
    INSIDE,
    KINDS,
    LARGEST,
    MIN_VOLUME,
    THRESHOLD,
    Components,
    apply_rule,
    is_one_of,
)
from mtf_imaging.evaluation.volume_scores.components import mask_components
from mtf_imaging.evaluation.volume_scores.voxels import Voxels, VoxelView
from mtf_imaging.spelling import did_you_mean

Labels = TypeVar("Labels", np.ndarray, CompactLabels)  # uint8 [x, y, z]
NEIGHBORS = 26  # voxels that share a face, an edge or a corner are connected
_FORM = (
    "MASK=largest, MASK=min_volume:ML, MASK=inside:MASK or MASK=threshold:PROBABILITY, for instance "
    "'liver=largest,lesion=min_volume:0.1'"
)
_NUMBERS = {
    MIN_VOLUME: ("volume_ml", math.inf, "a volume", "a positive number of mL"),
    THRESHOLD: ("threshold", 1, "a probability", "a number between 0 and 1"),
}
_ALL = (*KINDS, THRESHOLD)


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule for a mask, or for the union of several masks.

    Attributes:
      kind: "largest" keeps the largest component; "min_volume" keeps components of at least `volume`; "inside" keeps
          components that touch the rest of the mask `container`: its voxels outside the masks of the rule.
          "threshold" predicts the mask above a probability.
      masks: the names of the masks.
      labels: the labels of these masks.
      container: the name of the other mask, for "inside".
      container_labels: the labels of the other mask that `labels` does not contain.
      value: the smallest volume in mL, for "min_volume"; the probability, for "threshold".
    """

    kind: str
    masks: tuple[str, ...]
    labels: tuple[int, ...]
    container: str = ""
    container_labels: tuple[int, ...] = ()
    value: float = 0.0

    def __str__(self) -> str:
        value = f":{self.container}" if self.kind == INSIDE else f":{self.value:g}" if self.kind in _NUMBERS else ""
        return f"{'+'.join(self.masks)}={self.kind}{value}"

    @property
    def fields(self) -> dict[str, Any]:
        """The rule as the contents of a JSON file."""
        value = {"container": self.container} if self.kind == INSIDE else self._number
        return {"kind": self.kind, "masks": [*self.masks], **value}

    @property
    def _number(self) -> dict[str, float]:
        return {_NUMBERS[self.kind][0]: self.value} if self.kind in _NUMBERS else {}

    @property
    def resolved(self) -> dict[str, Any]:
        """The rule as JSON values that name labels instead of masks, for programs without the description."""
        value = {"container_labels": [*self.container_labels]} if self.kind == INSIDE else self._number
        fields = {"rule": str(self), "kind": self.kind, "labels": [*self.labels], "neighbors": NEIGHBORS}
        return fields | value

    def __call__(self, labels: Labels, spacing: tuple[float, float, float]) -> Labels:
        """Returns the labels without the components that the rule removes; see `apply_rule`."""
        return apply_rule(labels, self.resolved, spacing, components_in_slabs)


def make_rule(
    kind: str, masks: Collection[str], description: Description, container: str = "", value: float = 0.0
) -> Rule:
    """Returns a rule for masks of a description.

    Args:
      kind: "largest", "min_volume", "inside" or "threshold".
      masks: the names of the masks.
      description: the meaning of the labels.
      container: the name of the other mask, for "inside".
      value: the smallest volume in mL, for "min_volume"; the probability, for "threshold".
    """
    labels = {value for name in masks for value in description.masks[name]}
    rest = {*description.masks[container]} - labels if container else set()
    return Rule(kind, tuple(masks), tuple(sorted(labels)), container, tuple(sorted(rest)), value)


def parse_rules(text: str, description: Description) -> tuple[Rule, ...]:
    """Parses rules.

    >>> from mtf_imaging.data.description.description import LITS
    >>> [str(rule) for rule in parse_rules("liver=largest, lesion=min_volume:0.1, lesion=inside:liver", LITS)]
    ['liver=largest', 'lesion=min_volume:0.1', 'lesion=inside:liver']

    Args:
      text: the rules, separated by commas. Names joined by "+" are the union of these masks.
      description: the meaning of the labels.

    Raises:
      ConfigError: the text is not a list of rules, or a mask does not exist.
    """
    return tuple(_parse(part.strip(), description) for part in text.split(",") if part.strip())


def _parse(text: str, description: Description) -> Rule:
    names, equals, rule = text.partition("=")
    kind, _, value = rule.strip().partition(":")
    if not equals or kind not in _ALL or (kind == LARGEST) == bool(value):
        hint = did_you_mean(kind, _ALL) if equals else ""
        raise ConfigError(f"cleanup '{text}' is not a rule.{hint} Fix: give {_FORM}.", ["cleanup"])
    names = names.strip()
    masks = (names,) if names in description.masks else tuple(name.strip() for name in names.split("+"))
    for name in (*masks, *([value] if kind == INSIDE else [])):
        if name not in description.masks:
            raise ConfigError(
                f"cleanup '{text}': there is no mask '{name}'.{did_you_mean(name, [*description.masks])} Fix: choose "
                f"from {', '.join(description.masks)}.",
                ["cleanup"],
            )
    if kind not in _NUMBERS:
        rule = make_rule(kind, masks, description, container=value)
        if kind == INSIDE and not rule.container_labels:
            raise ConfigError(
                f"cleanup '{text}': no label of '{value}' lies outside '{names}', so nothing would stay. Fix: name a "
                "mask with other labels.",
                ["cleanup"],
            )
        return rule
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    _, limit, what, fix = _NUMBERS[kind]
    if not 0 < number < limit:
        raise ConfigError(
            f"cleanup '{text}': {value!r} is not {what}. Fix: give {fix}, for instance {names}={kind}:0.1.",
            ["cleanup"],
        )
    return make_rule(kind, masks, description, value=number)


def rule_of_fields(fields: Mapping[str, Any], description: Description) -> Rule:
    """Returns the rule that `Rule.fields` describes.

    Raises:
      KeyError, TypeError, ValueError: the fields do not describe a rule for this description.
    """
    kind = fields["kind"]
    if kind not in _ALL:
        raise ValueError(f"unknown kind {kind!r}")
    value = float(fields[_NUMBERS[kind][0]]) if kind in _NUMBERS else 0.0
    return make_rule(kind, tuple(fields["masks"]), description, fields.get("container", ""), value)


def components_in_slabs(labels: Voxels, values: Collection[int], neighbors: int) -> Components:
    """Finds the components of the voxels with one of several labels; see `whole_components`.

    The labels are read in slabs, so the component numbers of all voxels are never in memory together.
    """
    mask = VoxelView(labels.shape, lambda region: is_one_of(labels[region], values))
    components = mask_components(mask, full=neighbors == 26)
    return components.sizes, components.parts
