"""Scores of held-out records, as a network that is being trained segments them."""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window, apply_window
from mtf_imaging.data.nifti.voxel_values import NUM_CLASSES
from mtf_imaging.data.records.manifest import open_records, record_path
from mtf_imaging.data.records.pipeline import training_batches
from mtf_imaging.data.records.record import Record, read_record
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.evaluation.report.case_picture import picture_pixels
from mtf_imaging.evaluation.scoring.overlap import MASKS, Overlap, dice_text, label_overlaps
from mtf_imaging.evaluation.scoring.summary import dice_per_case
from mtf_imaging.evaluation.segment.predict import PredictProbabilities


@dataclass(frozen=True)
class HeldOutRecords:
    """Dice of liver and lesions of the records of a folder, means of cases; see `mtf_imaging.training.evaluation`.

    They are scored on the grid of the records. `mtf_imaging.evaluation.evaluate` scores at the cases' own resolution,
    by the same rules.

    Attributes:
      window: (low, high) in HU, as in training.
      spacing: that the records must have, as `open_records` takes it.
      progress: whether to show a bar while it evaluates.
    """

    window: Window = DEFAULT_WINDOW
    spacing: str | None = None
    progress: bool = True

    measures = tuple(MASKS)

    def open(self, eval_dir: str | Path, sizes: Grid) -> Callable:
        """Returns a function of the network: -> Dice by mask, and a picture of the first case.

        Raises:
          DataError: the folder does not hold finished records of this sampling.
        """
        manifest = open_records(eval_dir, tuple(sizes), self.spacing)

        def score(predict: PredictProbabilities) -> tuple[dict[str, float], dict[str, np.ndarray]]:
            overlaps, pictures = [], {}
            bar = tqdm(
                manifest.cases, desc="held out", unit="case", leave=False, disable=not self.progress, dynamic_ncols=True
            )
            for key in bar:
                path = record_path(eval_dir, key)
                overlaps.append(self._score_case(path, manifest, predict, pictures))
            return {name: dice_per_case(overlaps, name) for name in MASKS}, pictures

        return score

    def loss_batches(self, eval_dir: str | Path, *, batch_size: int, sizes: Grid) -> Iterator[dict]:
        """Returns all cases in batches, in the order of their keys; the first cases fill up the last batch."""
        number = len(open_records(eval_dir, tuple(sizes), self.spacing).cases)
        options = {"resolution": format_grid(sizes), "spacing": self.spacing, "window": self.window}
        found = training_batches(eval_dir, batch_size, seed=0, shuffle=False, **options)
        return itertools.islice(found, math.ceil(number / batch_size))

    def _score_case(self, path, manifest, predict, pictures):
        """The overlaps of a case; the first is added to the pictures. Its arrays are gone before the next is read."""
        record = read_record(path, manifest.sampling)
        manifest.check(path, record.key, record.source)
        prediction = _labels(predict(apply_window(record.hu, self.window)[..., np.newaxis]), record.hu.shape, path)
        overlaps = label_overlaps(prediction, record.labels)
        if not pictures:
            pictures[f"case {record.key}"] = _picture(record, prediction, overlaps)
        return overlaps


def _labels(probabilities: np.ndarray, grid: Grid, path: Path) -> np.ndarray:
    """The most probable class, uint8 `[x, y, z]`; by planes, because numpy's argmax takes 8 bytes a voxel."""
    if probabilities.shape != (*grid, NUM_CLASSES):
        raise ShapeError(
            f"{path}: the network returned an array of shape {probabilities.shape}, needed are probabilities of shape "
            f"{(*grid, NUM_CLASSES)} for the grid {format_grid(grid)}."
        )
    labels = np.empty(grid, np.uint8)
    for x, plane in enumerate(probabilities):
        plane = np.asarray(plane, np.float32)
        if not np.isfinite(plane).all():
            raise DataError(f"{path}: the network returned NaN or infinity. Fix: a lower learning rate.")
        labels[x] = plane.argmax(axis=-1)
    return labels


def _picture(record: Record, prediction: np.ndarray, overlaps: dict[str, Overlap]) -> np.ndarray:
    spans = record.sampling.spans(record.shape, record.spacing)
    spacing = [mm * span.step for mm, span in zip(record.spacing, spans, strict=True)]
    title = f"case {record.key}: Dice {dice_text(overlaps)}"
    return picture_pixels(record.hu, record.labels, prediction, spacing, title)
