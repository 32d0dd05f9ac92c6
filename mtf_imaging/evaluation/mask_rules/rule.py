"""Rules that remove components of a mask: all but the largest, small ones, or components outside another mask.

Voxels that share a face, an edge or a corner are connected (26 neighbors), as in `ndimage.label` with a structure of
ones. Labels are read in slabs, as in scoring.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import numpy as np
from scipy import ndimage

from mtf_imaging.data.description.description import Description
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.scoring.compact_labels import CompactLabels
from mtf_imaging.evaluation.scoring.components import mask_components
from mtf_imaging.evaluation.scoring.voxels import Region, VoxelView, slabs
from mtf_imaging.spelling import did_you_mean

Labels = TypeVar("Labels", np.ndarray, CompactLabels)  # uint8 [x, y, z]
LARGEST, INSIDE, MIN_VOLUME = "largest", "inside", "min_volume"
KINDS = (LARGEST, INSIDE, MIN_VOLUME)
_FORM = "MASK=largest, MASK=min_volume:ML or MASK=inside:MASK, for instance 'liver=largest,lesion=min_volume:0.1'"


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule for the components of a mask, or of the union of several masks.

    Attributes:
      kind: "largest" keeps the largest component; "min_volume" keeps components of at least `volume`; "inside" keeps
          components that touch the rest of the mask `container`: its voxels outside the masks of the rule.
      masks: the names of the masks.
      labels: the labels of these masks.
      container: the name of the other mask, for "inside".
      container_labels: the labels of the other mask that `labels` does not contain.
      volume: the smallest volume in mL, for "min_volume".
    """

    kind: str
    masks: tuple[str, ...]
    labels: tuple[int, ...]
    container: str = ""
    container_labels: tuple[int, ...] = ()
    volume: float = 0.0

    def __str__(self) -> str:
        value = {INSIDE: f":{self.container}", MIN_VOLUME: f":{self.volume:g}"}.get(self.kind, "")
        return f"{'+'.join(self.masks)}={self.kind}{value}"

    @property
    def fields(self) -> dict[str, Any]:
        """The rule as the contents of a JSON file."""
        value = {INSIDE: {"container": self.container}, MIN_VOLUME: {"volume_ml": self.volume}}.get(self.kind, {})
        return {"kind": self.kind, "masks": [*self.masks], **value}

    @property
    def resolved(self) -> dict[str, Any]:
        """The rule as JSON values that name labels instead of masks, for programs without the description."""
        value = {INSIDE: {"container_labels": [*self.container_labels]}, MIN_VOLUME: {"volume_ml": self.volume}}
        fields = {"rule": str(self), "kind": self.kind, "labels": [*self.labels], "neighbors": 26}
        return fields | value.get(self.kind, {})

    def keeps(self, volumes: np.ndarray, touches: np.ndarray) -> np.ndarray:
        """Returns a mask of the components to keep.

        Args:
          volumes: `[components]`, in mL, in the order of the first voxels.
          touches: bool `[components]`, whether each component touches the container.

        Returns:
          bool `[components]`.
        """
        if self.kind == LARGEST:
            return np.arange(len(volumes)) == (np.argmax(volumes) if len(volumes) else 0)
        return touches if self.kind == INSIDE else volumes >= self.volume

    def __call__(self, labels: Labels, spacing: tuple[float, float, float]) -> Labels:
        """Sets the voxels of removed components to background.

        Args:
          labels: uint8 `[x, y, z]`, an array or `CompactLabels`.
          spacing: voxel size in mm.

        Returns:
          The remaining labels, of the same type; `labels` itself if nothing is removed.
        """
        components = mask_components(
            VoxelView(labels.shape, lambda region: is_one_of(labels[region], self.labels)), full=True
        )
        touches = np.zeros(components.count + 1, bool)
        if self.kind == INSIDE:
            for region, numbers in zip(slabs(components.box), components.slabs(), strict=True):
                touches[numbers[near(labels, region, self.container_labels)]] = True
        keeps = self.keeps(components.sizes[1:] * voxel_ml(spacing), touches[1:])
        if keeps.all():
            return labels
        stays = np.concatenate([[True], keeps])  # component 0 is everything except the masks
        result = labels.copy()
        for region, numbers in zip(slabs(components.box), components.slabs(), strict=True):
            result[region] = np.where(stays[numbers], labels[region], 0)
        return result


def make_rule(
    kind: str, masks: Collection[str], description: Description, container: str = "", volume: float = 0.0
) -> Rule:
    """Returns a rule for masks of a description.

    Args:
      kind: "largest", "min_volume" or "inside".
      masks: the names of the masks.
      description: the meaning of the labels.
      container: the name of the other mask, for "inside".
      volume: the smallest volume in mL, for "min_volume".
    """
    labels = {value for name in masks for value in description.masks[name]}
    rest = {*description.masks[container]} - labels if container else set()
    return Rule(kind, tuple(masks), tuple(sorted(labels)), container, tuple(sorted(rest)), volume)


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
    if not equals or kind not in KINDS or (kind == LARGEST) == bool(value):
        hint = did_you_mean(kind, KINDS) if equals else ""
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
    if kind != MIN_VOLUME:
        rule = make_rule(kind, masks, description, container=value)
        if kind == INSIDE and not rule.container_labels:
            raise ConfigError(
                f"cleanup '{text}': no label of '{value}' lies outside '{names}', so nothing would stay. Fix: name a "
                "mask with other labels.",
                ["cleanup"],
            )
        return rule
    try:
        volume = float(value)
    except ValueError:
        volume = math.nan
    if not 0 < volume < math.inf:
        raise ConfigError(
            f"cleanup '{text}': {value!r} is not a volume. Fix: give a positive number of mL, for instance "
            f"{names}=min_volume:0.1.",
            ["cleanup"],
        )
    return make_rule(kind, masks, description, volume=volume)


def rule_of_fields(fields: Mapping[str, Any], description: Description) -> Rule:
    """Returns the rule that `Rule.fields` describes.

    Raises:
      KeyError, TypeError, ValueError: the fields do not describe a rule for this description.
    """
    if fields["kind"] not in KINDS:
        raise ValueError(f"unknown kind {fields['kind']!r}")
    value = {"container": fields.get("container", ""), "volume": float(fields.get("volume_ml", 0))}
    return make_rule(fields["kind"], tuple(fields["masks"]), description, **value)


def voxel_ml(spacing: tuple[float, float, float]) -> float:
    """Returns the volume of a voxel in mL, given its size in mm."""
    return math.prod(spacing) / 1000


def is_one_of(labels: np.ndarray, values: Collection[int]) -> np.ndarray:
    """Returns a mask of the voxels with one of several labels, bool of the same shape."""
    mask = np.zeros(labels.shape, bool)
    for value in values:
        mask |= labels == value
    return mask


def near(labels: np.ndarray | CompactLabels, region: Region, values: Collection[int]) -> np.ndarray:
    """Returns a mask of the voxels in a region that have, or neighbor, one of several labels, bool."""
    wide = tuple(slice(max(at.start - 1, 0), min(at.stop + 1, n)) for at, n in zip(region, labels.shape, strict=True))
    grown = ndimage.binary_dilation(is_one_of(labels[wide], values), np.ones((3, 3, 3), bool))
    return grown[tuple(slice(at.start - w.start, at.stop - w.start) for at, w in zip(region, wide, strict=True))]
