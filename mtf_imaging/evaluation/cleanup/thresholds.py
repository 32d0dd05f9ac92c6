"""Thresholds of probabilities: how they decide labels, and which voxels of a case they can change.

A network that is trained for few steps, or on a rare label, is often too cautious: it finds the place of a lesion, but
predicts a probability below that of the tissue around it. A threshold corrects this without training.
"""

import io
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.sampling.grid import Region
from mtf_imaging.evaluation.cleanup.rule_kinds import THRESHOLD
from mtf_imaging.evaluation.cleanup.rule_text import Rule
from mtf_imaging.evaluation.pairs.pairs import Pair
from mtf_imaging.evaluation.volume_scores.reliability import Reliability
from mtf_imaging.evaluation.volume_scores.voxels import Voxels
from mtf_imaging.files.atomic import write_bytes

CANDIDATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8)
BINS = 10  # of the probabilities from 0 to 1
_ODDS = [(1 - threshold) / threshold for threshold in CANDIDATES]
_MOST = max(_ODDS) / min(_ODDS)  # a label can win against another one that is this many times as probable


def factors(rules: Iterable[Rule], description: Description) -> np.ndarray | None:
    """Returns the factors of the probabilities before labels are chosen, float32 `[outputs]`; None without thresholds.

    A mask with the threshold t wins against another label if it has at least the probability t among the two. If
    several rules include a label, the last one counts.
    """
    result = np.ones(description.num_outputs, np.float32)
    rules = [rule for rule in rules if rule.kind == THRESHOLD]
    for rule in rules:  # a region is predicted above 0.5, whatever the others are
        factor = (0.5 if description.has_regions else 1 - rule.value) / rule.value
        result[_outputs(rule.masks, rule.labels, description)] = factor
    return result if rules else None


class OpenVoxels(NamedTuple):
    """The voxels of a case whose label thresholds can change, and how often masks exist at each probability.

    Attributes:
      places: int64 `[voxels]`, indices into the flattened volume along x, y, z.
      probabilities: float16 `[voxels, outputs]`, relative to the largest one if labels exclude each other.
      reliability: float64 `[masks, 3, BINS]`: for the scored voxels in each bin of the probability of a mask, their
        number, the sum of their probabilities, and how many of them belong to the mask.
    """

    places: np.ndarray
    probabilities: np.ndarray
    reliability: np.ndarray

    def changed(self, labels: np.ndarray, rules: Iterable[Rule], description: Description) -> np.ndarray:
        """Returns the labels of the open voxels with the thresholds of some rules, given those without."""
        weights = factors(rules, description)
        if weights is None:
            return labels
        own, to_labels = self.probabilities.astype(np.float32), description.of_probabilities.to_labels
        after = to_labels(own * weights)
        return np.where(after == to_labels(own), labels, after)

    def save(self, path: Path) -> None:
        """Writes the file of a case."""
        data = io.BytesIO()
        np.savez_compressed(data, **self._asdict())
        write_bytes(path, data.getvalue())

    @classmethod
    def read(cls, path: Path) -> "OpenVoxels":
        """Reads the file of a case."""
        with np.load(path) as file:
            return cls(**file)


def find_open_voxels(
    slabs: Iterable[tuple[Region, np.ndarray]], reference: Voxels, description: Description
) -> OpenVoxels:
    """Returns the open voxels of a case.

    Args:
      slabs: the regions of the volume, with their probabilities `[x, y, z, outputs]`.
      reference: the labels of the reference.
      description: the meaning of the labels.
    """
    places, open_ones, reliability = [], [], np.zeros((len(description.masks), 3, BINS))
    for region, probabilities in slabs:
        labels = reference[region]
        counts = labels != description.ignore
        for number, (name, values) in enumerate(description.masks.items()):
            probability = probabilities[..., _outputs([name], values, description)].sum(-1)
            reliability[number] += _reliability(probability[counts], description.mask(name, labels)[counts])
        if description.has_regions:
            is_open = ((probabilities > CANDIDATES[0]) & (probabilities <= CANDIDATES[-1])).any(-1)
        else:
            probabilities = probabilities / probabilities.max(-1, keepdims=True)
            is_open = np.partition(probabilities, -2, axis=-1)[..., -2] * _MOST > 1
        inside = [at + part.start for at, part in zip(np.nonzero(is_open), region, strict=True)]
        places.append(np.ravel_multi_index(inside, reference.shape))
        open_ones.append(probabilities[is_open].astype(np.float16))
    every = np.concatenate(places)
    order = np.argsort(every)  # the parts, and therefore the order in which voxels come, depend on the layout
    return OpenVoxels(every[order], np.concatenate(open_ones)[order], reliability)


def pooled_reliability(pairs: Iterable[Pair], description: Description) -> Reliability:
    """Returns the reliability of the probabilities of one or more cases that `evaluate` predicted."""
    paths = [pair.open_voxels for pair in pairs]
    pooled = np.sum([OpenVoxels.read(path).reliability for path in paths if path is not None], axis=0)
    return Reliability(dict(zip(description.masks, pooled, strict=True)))


def _outputs(masks: Collection[str], labels: Collection[int], description: Description) -> list[int]:
    """Returns the numbers of the outputs for some masks, which have these labels."""
    return [
        number
        for number, (name, own) in enumerate(description.outputs.items())
        if (name in masks if description.has_regions else {*own} <= {*labels})
    ]


def _reliability(probability: np.ndarray, is_mask: np.ndarray) -> np.ndarray:
    at = np.clip((probability * BINS).astype(int), 0, BINS - 1)
    probability = np.rint(probability * 2.0**20) / 2.0**20  # sums of such numbers are exact, so parts may differ
    return np.stack([np.bincount(at, weights, BINS) for weights in (None, probability, is_mask)])
