"""The mask components of a case, with the numbers that determine how removing them changes the Dice."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.evaluation.cleanup.rule_kinds import INSIDE, kept_components, near, voxel_ml
from mtf_imaging.evaluation.cleanup.rule_text import NEIGHBORS, Rule, components_in_slabs
from mtf_imaging.evaluation.volume_scores.overlap import Overlap, label_overlaps, scored_labels
from mtf_imaging.evaluation.volume_scores.voxels import Voxels

Masks = tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class MaskTable:
    """The components of one mask, or of the union of several masks, in a prediction.

    Attributes:
      volumes: `[components]`, in mL.
      prediction: int64 `[components, masks]`, the number of scored voxels of each mask in each component.
      intersection: int64 `[components, masks]`, the number of these voxels that the reference shares.
      touches: {mask: bool `[components]`}, whether each component touches the rest of the mask.
    """

    volumes: np.ndarray
    prediction: np.ndarray
    intersection: np.ndarray
    touches: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class CaseTables:
    """A case: its scores, and the components that rules may remove.

    Attributes:
      overlaps: {mask: overlap} of the prediction and the reference.
      tables: the components of each mask or union.
      changes: {rule for probabilities: how it changes the overlaps}.
    """

    overlaps: Mapping[str, Overlap]
    tables: Mapping[Masks, MaskTable]
    changes: Mapping[Rule, Mapping[str, Overlap]] = dataclasses.field(default_factory=dict)

    def dice(self, rule: Rule | None = None) -> dict[str, float]:
        """Returns the Dice of each mask after applying a rule."""
        if rule is None:
            return {name: one.dice for name, one in self.overlaps.items()}
        if rule in self.changes:
            return {name: (one + self.changes[rule][name]).dice for name, one in self.overlaps.items()}
        table = self.tables[rule.masks]
        touches = table.touches.get(rule.container, np.zeros(0, bool))
        is_removed = ~kept_components(rule.resolved, table.volumes, touches)
        prediction, shared = (n[is_removed].sum(axis=0) for n in (table.prediction, table.intersection))
        return {
            name: Overlap(one.intersection - int(shared[n]), one.prediction - int(prediction[n]), one.reference).dice
            for n, (name, one) in enumerate(self.overlaps.items())
        }


def case_tables(
    prediction: Voxels,
    reference: Voxels,
    spacing: tuple[float, float, float],
    description: Description,
    rules: Sequence[Rule],
) -> CaseTables:
    """Returns the tables of a case for the candidate rules.

    Args:
      prediction: the labels, uint8 `[x, y, z]`; an array or `CompactLabels`.
      reference: the labels of the reference.
      spacing: voxel size in mm.
      description: the meaning of the labels.
      rules: the candidates.
    """
    by_masks: dict[Masks, list[Rule]] = {}
    for rule in rules:
        by_masks.setdefault(rule.masks, []).append(rule)
    return CaseTables(
        label_overlaps(prediction, reference, description),
        {masks: _table(prediction, reference, spacing, description, own) for masks, own in by_masks.items()},
    )


def _table(
    prediction: Voxels,
    reference: Voxels,
    spacing: tuple[float, float, float],
    description: Description,
    rules: Sequence[Rule],
) -> MaskTable:
    """Returns the mask components for some rules."""
    sizes, parts = components_in_slabs(prediction, rules[0].labels, NEIGHBORS)
    size = len(sizes)
    containers = {rule.container: rule.container_labels for rule in rules if rule.kind == INSIDE}
    touches = {name: np.zeros(size, bool) for name in containers}
    counts = np.zeros((2, len(description.masks), size), np.int64)
    for region, numbers in parts():
        inside = numbers > 0
        own = numbers[inside]
        for name, values in containers.items():
            touches[name][numbers[inside & near(prediction, region, values, NEIGHBORS)]] = True
        pair = [part[inside] for part in scored_labels(prediction[region], reference[region], description)]
        for n, mask in enumerate(description.masks):
            is_predicted, is_real = (description.mask(mask, part) for part in pair)
            for kind, selected in enumerate((is_predicted, is_predicted & is_real)):
                counts[kind, n] += np.bincount(own[selected], minlength=size)
    return MaskTable(
        sizes[1:] * voxel_ml(spacing),
        *(counts[kind, :, 1:].T for kind in (0, 1)),
        {name: one[1:] for name, one in touches.items()},
    )
