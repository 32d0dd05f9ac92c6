"""Dice of liver and lesions, per case and global, as the LiTS challenge scores them."""

from dataclasses import dataclass, field

import numpy as np

from mtf_imaging.errors import DataError

# The masks that are scored: a lesion is liver, too.
MASKS = {"liver": lambda labels: labels >= 1, "lesion": lambda labels: labels == 2}


@dataclass(frozen=True)
class Overlap:
    """Voxel counts of a predicted and a reference mask.

    Attributes:
      intersection: voxels in both.
      total: voxels of the one plus voxels of the other.
    """

    intersection: int
    total: int

    @property
    def dice(self) -> float:
        """2 intersection / total; 1 where both masks are empty, so a right empty prediction is a right one."""
        return 2 * self.intersection / self.total if self.total else 1.0

    def __add__(self, other: "Overlap") -> "Overlap":
        return Overlap(self.intersection + other.intersection, self.total + other.total)


def overlap(prediction: np.ndarray, reference: np.ndarray) -> Overlap:
    """Counts the voxels of two boolean masks of one shape."""
    common = np.count_nonzero(prediction & reference)
    return Overlap(common, np.count_nonzero(prediction) + np.count_nonzero(reference))


@dataclass
class DiceScores:
    """Collects the overlaps of cases.

    Attributes:
      cases: `{key: {"liver": Overlap, "lesion": Overlap}}`, in the order of `add`.
    """

    cases: dict[str, dict[str, Overlap]] = field(default_factory=dict)

    def add(self, key: str, prediction: np.ndarray, reference: np.ndarray) -> dict[str, float]:
        """Scores a case.

        Args:
          key: the case.
          prediction: labels `[x, y, z]`, 0 background, 1 liver, 2 lesion.
          reference: the same of the reference.

        Returns:
          Its Dice, `{"liver": ..., "lesion": ...}`.

        Raises:
          DataError: the arrays differ in shape, or the case was added before.
        """
        if prediction.shape != reference.shape:
            raise DataError(f"case '{key}': prediction of shape {prediction.shape}, reference of {reference.shape}.")
        if key in self.cases:
            raise DataError(f"case '{key}': scored twice.")
        self.cases[key] = {name: overlap(mask(prediction), mask(reference)) for name, mask in MASKS.items()}
        return {name: counts.dice for name, counts in self.cases[key].items()}

    def dice_per_case(self, mask: str) -> float:
        """Mean over the cases of their Dice."""
        return float(np.mean([counts[mask].dice for counts in self.cases.values()]))

    def dice_global(self, mask: str) -> float:
        """Dice of all cases taken as one: 2 x sum of intersections / sum of totals."""
        return sum((counts[mask] for counts in self.cases.values()), Overlap(0, 0)).dice
