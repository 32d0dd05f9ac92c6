"""Compares the descriptions of two data sets, for example, of training and held-out cases."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mtf_imaging.errors import DataError

if TYPE_CHECKING:  # imports NumPy
    from mtf_imaging.data.description.description import Description

_NONE = "none"


class Difference(NamedTuple):
    """A part of a description that differs.

    Attributes:
      what: the part, such as "labels".
      own: its value in the data, as text.
      expected: its value in the training data, as text.
    """

    what: str
    own: str
    expected: str


def differences(own: "Description", expected: "Description") -> list[Difference]:
    """Returns the differences that change the meaning of a voxel or its label.

    Differences in the file ending, the intensity schemes, the lesions and the order of the masks do not count: a
    network keeps these properties of its training data.

    >>> from mtf_imaging.data.description.description import LITS
    >>> import dataclasses
    >>> differences(dataclasses.replace(LITS, channels=("MR",)), LITS)
    [Difference(what='channels', own='MR', expected='CT')]
    """
    labels = compared("labels", _labels(own.labels), _labels(expected.labels))
    masks = compared("regions" if expected.has_regions else "masks", _masks(own), _masks(expected))
    return [
        *channel_differences(own, expected),
        *(labels or masks),  # different labels imply different masks, which would repeat the message
        *compared("ignore label", _ignored(own), _ignored(expected)),
        *compared("rules", own.rules, expected.rules),
    ]


def channel_differences(own: "Description", expected: "Description") -> list[Difference]:
    """Returns the difference between the channels, the only part that matters for images without labels."""
    return compared("channels", ", ".join(own.channels), ", ".join(expected.channels))


def compared(what: str, own: str, expected: str) -> list[Difference]:
    """Returns the difference between two values, or an empty list if they are equal."""
    return [] if own == expected else [Difference(what, own, expected)]


def refuse_differences(
    subject: str, found: Sequence[Difference], expected: str, fix: str, settings: Iterable[str] = ()
) -> None:
    """Raises DataError if there is a difference.

    Args:
      subject: the data with a verb, such as "held_out: has".
      found: the differences.
      expected: the training data with a verb, such as "the network is trained with".
      fix: the fix, as a sentence.
      settings: names of the keyword arguments in the fix.
    """
    if found:
        parts = (f"the {one.what} {one.own}, but {expected} {one.expected}" for one in found)
        raise DataError(f"{subject} {'; '.join(parts)}. Fix: {fix}", settings)


def _labels(labels: Mapping[str, int]) -> str:
    return ", ".join(f"{value} {name}" for name, value in sorted(labels.items(), key=lambda item: item[1]))


def _masks(description: "Description") -> str:
    """Returns the masks with their labels and, for training by regions, the label with which each is painted."""
    painted = dict(zip(description.masks, description.region_order or (), strict=False))
    texts = []
    for name, values in sorted(description.masks.items()):
        as_label = f" painted as {painted[name]}" if name in painted else ""
        texts.append(f"{name} = {'+'.join(map(str, sorted(values)))}{as_label}")
    return ", ".join(texts)


def _ignored(description: "Description") -> str:
    return _NONE if description.ignore is None else str(description.ignore)
