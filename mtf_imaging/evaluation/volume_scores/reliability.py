"""How often masks exist where a network predicts them with a certain probability."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Reliability:
    """The reliability curves of the masks, over all voxels of the scored cases.

    Attributes:
      bins: {mask: float64 `[3, bins]`}: for the voxels in each bin of the probability of the mask, their number, the
        sum of their probabilities, and how many of them belong to the mask.
    """

    bins: Mapping[str, np.ndarray]

    def error(self, name: str) -> float:
        """Returns the expected calibration error: the mean distance of probability and frequency over the voxels."""
        voxels, probability, hits = self.bins[name]
        return float(np.abs(probability - hits).sum() / voxels.sum())

    def expected_volume(self, name: str) -> float | None:
        """Returns the sum of the probabilities relative to the volume of the mask; None without such a mask."""
        _, probability, hits = self.bins[name].sum(axis=1)
        return float(probability / hits) if hits else None

    def points(self, name: str) -> list[tuple[float, float, int]]:
        """Returns the mean probability, the frequency and the number of voxels of each bin that has voxels."""
        return [(float(p / n), float(hits / n), int(n)) for n, p, hits in self.bins[name].T if n]

    @property
    def fields(self) -> dict[str, Any]:
        """The entry `calibration` of `metrics.json`."""
        return {
            name: {
                "expected_calibration_error": self.error(name),
                "expected_volume": self.expected_volume(name),
                "bins": [dict(zip(("probability", "frequency", "voxels"), row)) for row in self.points(name)],
            }
            for name in self.bins
        }
