"""Scoring of held-out records during training."""

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.cases.description import LITS, LITS_RULES, Description
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window, apply_window
from mtf_imaging.data.records.channel_maps import resolve_intensities
from mtf_imaging.data.records.manifest import Manifest, is_plain_lits, open_records
from mtf_imaging.data.records.pipeline import training_batches
from mtf_imaging.data.records.record import Record
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.records.stored import read_record
from mtf_imaging.data.sampling.buckets import group_by_grid
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.evaluation.report.case_picture import picture_pixels
from mtf_imaging.evaluation.scoring.overlap import Overlap, dice_text, label_overlaps, mean
from mtf_imaging.evaluation.scoring.summary import dice_per_case
from mtf_imaging.evaluation.segment.predict import PredictProbabilities

MEAN = "mean"  # the name of the mean Dice of all masks


@dataclass(frozen=True)
class HeldOutRecords:
    """Mean Dice of each mask over the records in a folder, for `mtf_imaging.training.evaluation`.

    Scores are computed on the grid of the records. `mtf_imaging.evaluation.evaluate` applies the same rules at the
    cases' own resolution.

    Attributes:
      window: (low, high) in HU, as in training; see `resolve_intensities`.
      spacing: the spacing that the records must have, in the format of `open_records`.
      progress: whether to show a progress bar.
      description: the meaning of the labels.
      intensities: {channel: intensity scheme}, as in training; see `Records`.
    """

    window: Window = DEFAULT_WINDOW
    spacing: str | None = None
    progress: bool = True
    description: Description = LITS
    intensities: Mapping[str, str] | None = None

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the masks; for other data than LiTS, also their mean."""
        return (*self.description.masks, *([] if self.description.rules == LITS_RULES else [MEAN]))

    def open(self, eval_dir: str | Path, sizes: Grid | None) -> Callable:
        """Opens the records and returns a function that scores a network on them.

        Args:
          eval_dir: folder of the held-out records.
          sizes: voxels of the records along x, y and z; None for records with any grids.

        Returns:
          A function of the network that returns the mean Dice by mask and a picture of the first case.

        Raises:
          DataError: the folder does not hold finished records of this sampling.
        """
        manifest = self._open(eval_dir, sizes)

        def score(predict: PredictProbabilities) -> tuple[dict[str, float], dict[str, np.ndarray]]:
            overlaps, pictures = [], {}
            bar = tqdm(
                manifest.cases, desc="held out", unit="case", leave=False, disable=not self.progress, dynamic_ncols=True
            )
            for key in bar:
                overlaps.append(self._score_case(eval_dir, key, manifest, predict, pictures))
            dice = {name: dice_per_case(overlaps, name) for name in self.description.masks}
            return {name: dice[name] if name in dice else mean(dice.values()) for name in self.measures}, pictures

        return score

    def loss_batches(self, eval_dir: str | Path, *, batch_size: int, sizes: Grid | None) -> Iterator[dict]:
        """Returns an iterator over all cases in batches, ordered by key; the first cases fill up the last batch.

        Records with several grids are ordered by grid, and each grid has its own last batch.
        """
        manifest = self._open(eval_dir, sizes)
        for at in group_by_grid(manifest.grids).values():
            cases = Subset(os.fspath(eval_dir), tuple(manifest.cases[number] for number in at))
            options = {"spacing": self.spacing, "window": self.window, "intensities": self.intensities}
            batches = training_batches(cases, batch_size, seed=0, shuffle=False, **options)
            yield from itertools.islice(batches, math.ceil(len(at) / batch_size))

    def _open(self, eval_dir: str | Path, sizes: Grid | None) -> Manifest:
        return open_records(eval_dir, None if sizes is None else tuple(sizes), self.spacing)

    def _score_case(self, eval_dir, key, manifest, predict, pictures):
        """Returns the overlaps of one case and draws it if it is the first.

        This is a separate function so that the arrays of a case are freed before the next one is read.
        """
        path = manifest.record_path(eval_dir, key)
        record = read_record(path, manifest.case_sampling(key))
        manifest.check(path, record.key, record.source)
        probabilities = predict(self._network_input(record, manifest))
        prediction = _labels(probabilities, record.labels.shape, path, self.description)
        overlaps = label_overlaps(prediction, record.labels, self.description)
        if not pictures:
            pictures[f"case {record.key}"] = _picture(record, prediction, overlaps, self.description)
        return overlaps

    def _network_input(self, record: Record, manifest: Manifest) -> np.ndarray:
        """Returns the image of a record as in training, float32 `[x, y, z, channels]`."""
        if is_plain_lits(manifest.description) and not self.intensities:
            return apply_window(record.hu, self.window)[..., np.newaxis]
        return record.network_input(resolve_intensities(manifest, self.window, self.intensities))


def _labels(probabilities: np.ndarray, grid: Grid, path: Path, description: Description) -> np.ndarray:
    """Returns the labels, uint8 `[x, y, z]`, by `Description.to_labels`.

    The loop handles one plane at a time because NumPy's argmax needs 8 bytes per voxel.
    """
    shape = (*grid, description.num_outputs)
    if probabilities.shape != shape:
        raise ShapeError(
            f"{path}: the network returned an array of shape {probabilities.shape}; the grid {format_grid(grid)} needs "
            f"probabilities of shape {shape}. Fix: return one probability per "
            f"{'mask' if description.has_regions else 'class'} for every voxel."
        )
    labels = np.empty(grid, np.uint8)
    for x, plane in enumerate(probabilities):
        plane = np.asarray(plane, np.float32)
        if not np.isfinite(plane).all():
            raise DataError(f"{path}: the network returned NaN or infinity. Fix: lower the learning rate.")
        labels[x] = description.to_labels(plane)
    return labels


def _picture(
    record: Record, prediction: np.ndarray, overlaps: dict[str, Overlap], description: Description
) -> np.ndarray:
    spans = record.sampling.spans(record.shape, record.spacing)
    spacing = [mm * span.step for mm, span in zip(record.spacing, spans, strict=True)]
    title = f"case {record.key}: Dice {dice_text(overlaps)}"
    image = record.hu if record.values is None else record.values
    return picture_pixels(image, record.labels, prediction, spacing, title, description)
