"""Merges the detections of several runs of a network on flipped and scaled copies of an image."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Candidates(NamedTuple):
    """The detections of one network run, in descending score order.

    Attributes:
      boxes: float64 `[detections, 4]`, y0, x0, y1, x1 in pixels of the image; they may exceed the image.
      scores: float64 `[detections]`.
      classes: int64 `[detections]`.
      masks: `[detections, rows, columns]`, the probabilities of the mask within each box; None without masks.
    """

    boxes: np.ndarray
    scores: np.ndarray
    classes: np.ndarray
    masks: np.ndarray | None

    def take(self, at: np.ndarray) -> "Candidates":
        """Returns a selection of the detections."""
        masks = None if self.masks is None else self.masks[at]
        return Candidates(self.boxes[at], self.scores[at], self.classes[at], masks)


def merge(runs: Sequence[Candidates], size: tuple[int, int], threshold: float, number: int) -> Candidates:
    """Merges detections by non-maximum suppression for each class, as Detectron2's `GeneralizedRCNNWithTTA` does.

    The detections of all runs are visited in descending score order; among equal scores, earlier runs come first. A
    detection is dropped if its intersection over union with a kept detection of its class, within the image, exceeds
    the threshold. A kept detection keeps its own score, box and mask; nothing is averaged.

    Args:
      runs: one or more runs. The detections of a single run are returned unchanged.
      size: height and width of the image.
      threshold: the intersection over union.
      number: the number of detections to keep.
    """
    if len(runs) == 1:
        return runs[0]
    masks = None if runs[0].masks is None else np.concatenate([run.masks for run in runs if run.masks is not None])
    boxes, scores, classes = (
        np.concatenate([getattr(run, name) for run in runs]) for name in ("boxes", "scores", "classes")
    )
    everything = Candidates(boxes, scores, classes, masks)
    inside = np.clip(boxes, 0, np.array([*size, *size]))
    kept: list[int] = []
    for at in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == number:
            break
        rivals = [other for other in kept if classes[other] == classes[at]]
        if not rivals or _iou(inside[at], inside[rivals]).max() <= threshold:
            kept.append(at)
    return everything.take(np.array(kept, np.int64))


def _iou(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Returns the intersection over union of a box `[4]` and others `[n, 4]`; 0 for empty boxes."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.maximum(sides, 0).prod(axis=1)
    areas = np.maximum(others[:, 2:] - others[:, :2], 0).prod(axis=1) + np.maximum(box[2:] - box[:2], 0).prod()
    union = areas - shared
    return np.divide(shared, union, out=np.zeros_like(union), where=union > 0)
