"""The labels in the images of a data set, and warnings about missing labels."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mtf_imaging.plain_text import some

_SHOWN, _MOST = 5, 12  # names listed in a warning and in a summary


@dataclass(frozen=True)
class LabelSurvey:
    """The labels in a sample of a data set's images.

    Attributes:
      names: {name: label} of the labels that should occur.
      counts: int64, the number of voxels, pixels or objects of each label.
      ignored: the keys of the images whose voxels or pixels all have the ignore label.
      num_counted: the number of images in the sample.
      num_images: the number of images in the data set.
      unit: a noun for the counted elements, such as "voxel".
      images: a noun for the images, such as "cases".
      source: the file that names the labels.
      is_partial: whether only a part of each image is counted.
      cause: the reason for missing labels, if their values reveal it, as a clause with its fix; it replaces all other
        warnings.
    """

    names: Mapping[str, int]
    counts: np.ndarray
    ignored: tuple[str, ...]
    num_counted: int
    num_images: int
    unit: str
    images: str
    source: str
    is_partial: bool = False
    cause: str = ""

    @property
    def missing(self) -> list[str]:
        """The names of labels that do not occur in the sample."""
        return [name for name, label in self.names.items() if not self.counts[label]]

    @property
    def is_ignored(self) -> bool:
        """Whether all voxels or pixels in the data set are ignored. False if only part of it was counted."""
        is_whole = self.num_counted == self.num_images and not self.is_partial
        return is_whole and len(self.ignored) == self.num_images

    def summary(self) -> str:
        """Returns the number of elements of each label, such as "2 cases, voxels: liver 900, lesion 12"."""
        counts = (f"{name} {self.counts[label]:,}" for name, label in self.names.items())
        return f"{self.sample()}, {self.unit}s: {some(counts, _MOST)}"

    def missing_warnings(self, is_held_out: bool = False) -> list[str]:
        """Returns the warning about names that do not occur, as a list that may be empty; see `warnings`."""
        missing = self.missing
        if not missing:
            return []
        it, name = ("it", "this name") if len(missing) == 1 else ("them", "these names")
        effect = f"the scores say nothing about {it}" if is_held_out else f"a network cannot learn {it}"
        what = f"no {self.unit} of {_listed(missing)} in {self.sample(is_held_out)}; {effect}"
        return [f"{what}. Fix: check the labels, or remove {name} from {self.source}."]

    def warnings(self, is_held_out: bool = False) -> list[str]:
        """Returns the warnings about missing labels.

        Args:
          is_held_out: whether the images are used for scoring instead of training.
        """
        if self.cause:
            return [f"{self.cause} ({self.sample(is_held_out)} counted)."]
        texts = self.missing_warnings(is_held_out)
        if self.ignored:
            few = f"{len(self.ignored)} of the {self.num_counted} {'held-out ' * is_held_out}{self.images} counted"
            what = f"the ignore label is the only label in {few}, such as {self.ignored[0]}"
            texts.append(
                f"{what}; these neither train nor score a network. Fix: check their labels, or leave them out."
            )
        return texts

    def sample(self, is_held_out: bool = False) -> str:
        """Describes the sample, such as "64 of 131 cases"."""
        few = f" of {self.num_images}" if self.num_counted < self.num_images else ""
        return (
            f"{'parts of ' if self.is_partial else ''}{self.num_counted}{few} {'held-out ' * is_held_out}{self.images}"
        )


def _listed(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
