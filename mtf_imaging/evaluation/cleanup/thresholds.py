"""Thresholds of probabilities: how they decide labels, and which voxels of a case they can change.

A network that is trained for few steps, or on a rare label, is often too cautious: it finds the place of a lesion, but
predicts a probability below that of the tissue around it. A threshold corrects this without training.
"""

import zipfile
from collections.abc import Collection, Iterable, Iterator
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
from mtf_imaging.files.atomic import atomic_path

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
    """The voxels in a region of a case whose label thresholds can change.

    Attributes:
      start: int64 `[3]`, the first voxel of the region along x, y, z.
      is_open: bool `[x, y, z]`, whether thresholds can change the label of each voxel in the region.
      probabilities: float16 `[open voxels, outputs]`, relative to the largest one if labels exclude each other.
    """

    start: np.ndarray
    is_open: np.ndarray
    probabilities: np.ndarray

    @property
    def region(self) -> Region:
        """The region."""
        x, y, z = (slice(int(first), int(first) + n) for first, n in zip(self.start, self.is_open.shape, strict=True))
        return x, y, z

    def changed(self, labels: np.ndarray, rules: Iterable[Rule], description: Description) -> np.ndarray:
        """Returns the labels of the open voxels with the thresholds of some rules, given those without."""
        weights = factors(rules, description)
        if weights is None:
            return labels
        own, to_labels = self.probabilities.astype(np.float32), description.of_probabilities.to_labels
        after = to_labels(own * weights)
        return np.where(after == to_labels(own), labels, after)


def save_open_voxels(
    path: Path, slabs: Iterable[tuple[Region, np.ndarray]], reference: Voxels, description: Description
) -> None:
    """Writes the file of a case: its open voxels, and how often masks exist at each probability.

    The file has the arrays of `OpenVoxels` for each slab, and the reliability, float64 `[masks, 3, BINS]`: for the
    scored voxels in each bin of the probability of a mask, their number, the sum of their probabilities, and the number
    of these voxels in the mask.

    Args:
      path: the file to write or replace.
      slabs: the regions of the volume, with their probabilities `[x, y, z, outputs]`.
      reference: the labels of the reference.
      description: the meaning of the labels.
    """
    reliability = np.zeros((len(description.masks), 3, BINS))
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as file:
        for slab, (region, probabilities) in enumerate(slabs):
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
            start = np.array([at.start for at in region])
            opened = OpenVoxels(start, is_open, probabilities[is_open].astype(np.float16))
            for name, array in opened._asdict().items():
                _write(file, f"{name}/{slab}", array)
        _write(file, "reliability", reliability)


def _write(file: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    """Writes an array as `np.savez` does, which would need all of them at once."""
    with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
        np.save(entry, array)


def read_open_voxels(path: Path) -> Iterator[OpenVoxels]:
    """Yields the open voxels of each slab of a case."""
    with np.load(path) as file:
        for slab in range(len(file.files) // len(OpenVoxels._fields)):
            yield OpenVoxels(*(file[f"{name}/{slab}"] for name in OpenVoxels._fields))


def pooled_reliability(pairs: Iterable[Pair], description: Description) -> Reliability:
    """Returns the reliability of the probabilities of one or more cases that `evaluate` predicted."""
    pooled = np.zeros((len(description.masks), 3, BINS))
    for pair in pairs:
        if pair.open_voxels is not None:
            with np.load(pair.open_voxels) as file:
                pooled += file["reliability"]
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
