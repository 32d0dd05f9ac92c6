"""Scores held-out volumes at their original resolution during training."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.spacing_table import SpacingTable
from mtf_imaging.data.reading.images import read_labels
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.window import Window
from mtf_imaging.evaluation.scoring.overlap import Overlap, label_overlaps
from mtf_imaging.evaluation.scoring.summary import dice_global
from mtf_imaging.kinds.volumes.segment.images import find_cases_of, read_case
from mtf_imaging.kinds.volumes.segment.predict import PredictProbabilities, segment_volume


class HeldOutVolumes:
    """Held-out volumes in memory.

    Args:
      folder: folder of the labeled cases.
      sampling: the voxel grid of the network.
      window: (low, high) in HU, as in training, for LiTS.
      description: the meaning of the channels and labels.
      known: voxel sizes of files whose headers lack them.

    Attributes:
      seconds: mean duration per case of the last predictions, in seconds.
    """

    def __init__(
        self, folder: str | Path, sampling: AnySampling, window: Window, description: Description, known: SpacingTable
    ) -> None:
        self._options: dict[str, Any] = {"sampling": sampling, "window": window, "description": description}
        self._description = description
        self._cases: list[tuple[Any, np.ndarray]] = []
        for case in find_cases_of(folder, description):
            volume = read_case(case, known, description)
            assert case.labels is not None, "the cases are labeled"
            self._cases.append((volume, read_labels(case.labels, volume, description)))
        self.seconds = 0.0

    def score(self, network: PredictProbabilities) -> dict[str, float]:
        """Returns the Dice of each mask, with the voxels of all cases pooled, at the original resolution.

        In a mean over cases, a single false voxel of an absent label would count as a Dice of 0.
        """
        overlaps: list[dict[str, Overlap]] = []
        self.seconds = 0.0
        for volume, reference in self._cases:
            began = time.monotonic()
            labels = segment_volume(volume, predict_probabilities=network, **self._options)
            self.seconds += (time.monotonic() - began) / len(self._cases)
            overlaps.append(label_overlaps(labels, reference, self._description))
        return {name: dice_global(overlaps, name) for name in self._description.masks}
