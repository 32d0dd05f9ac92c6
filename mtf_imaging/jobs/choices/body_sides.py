"""Finds the labels that distinguish the sides of the body, by their names and by where they lie in the cases."""

import math

import numpy as np

from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.sides import LEFT, RIGHT, sides_of
from mtf_imaging.plain_text import some

_NEARLY_ALL = 0.9  # of the cases that have both labels of a pair
_SIMILAR = 2.0  # the largest ratio of the volumes of a pair
_CONTRADICTING = 0.25  # share of the cases above which names do not count
_SHOWN = 6


def choose_sides(fingerprint: Fingerprint) -> Choice:
    """Returns the names of the labels that depend on the side, and how this shows; see docs/evidence/plan.md."""
    description = fingerprint.description
    middles = _middles(fingerprint)
    named = sides_of((*description.labels, *description.masks))
    signs = [{LEFT: -1, RIGHT: 1}.get(named.get(name, ""), 0) for name in description.labels]
    toward = np.nansum(middles[..., 0] * signs, axis=1)  # above 0 if the labels of a case lie where their names say
    contradicting, cases = min((toward > 0).sum(), (toward < 0).sum()), np.count_nonzero(toward)
    if named and contradicting <= max(1, _CONTRADICTING * cases):
        return Choice(tuple(named), f"labels name sides ({some(named, _SHOWN)})")
    if pairs := _mirrored(fingerprint, middles):
        names = tuple(dict.fromkeys(name for pair in pairs for name in pair))
        return Choice(names, f"labels mirror each other in nearly all cases ({some(map(' and '.join, pairs), _SHOWN)})")
    if named:
        where = f"in {contradicting} of {cases} cases they lie on the other side than in the rest, as `inspect` shows"
        return Choice((), f"labels have names of sides ({some(named, _SHOWN)}), but {where}")
    return Choice((), "no label names a side, and no two mirror each other")


def _middles(fingerprint: Fingerprint) -> np.ndarray:
    """Returns the middles of all labels in mm from the center of the field of view, float64 `[cases, labels, 3]`.

    Labels that a case lacks have NaN.
    """
    labels, absent = fingerprint.description.labels.values(), (math.nan,) * 3
    middles = [[case.middles.get(label, absent) for label in labels] for case in fingerprint.cases]
    return (np.array(middles) - 0.5) * np.array([case.extent_mm for case in fingerprint.cases])[:, None]


def _mirrored(fingerprint: Fingerprint, middles: np.ndarray) -> list[tuple[str, str]]:
    """Returns the pairs of labels that mirror each other along x in nearly all cases that have both, of two or more.

    Each label counts as a ball of its volume: both lie on opposite sides, at similar distances from the middle and at
    least half a radius apart, and the smaller ball, moved along x, contains the other middle.
    """
    names, labels = zip(*fingerprint.description.labels.items(), strict=True)
    both = mirrored = np.zeros((len(labels),) * 2, int)
    for case, middle in zip(fingerprint.cases, middles, strict=True):
        volume = math.prod(case.spacing) * np.array([case.voxels.get(label, 0) for label in labels])
        smaller, x = np.minimum.outer(volume, volume), middle[:, 0]
        radius = np.cbrt(smaller * 3 / 4 / math.pi)
        apart, between = x - x[:, None], (x + x[:, None]) / 2
        is_opposite = (apart > radius / 2) & (abs(between) <= apart / 4)
        is_level = np.linalg.norm(middle[:, None, 1:] - middle[:, 1:], axis=-1) <= radius
        has = np.isfinite(x)
        both = both + (has[:, None] & has)
        mirrored = mirrored + (is_opposite & is_level & (np.maximum.outer(volume, volume) <= _SIMILAR * smaller))
    pairs = np.argwhere((both > 1) & (mirrored >= _NEARLY_ALL * both))
    return [(names[left], names[right]) for left, right in pairs]
