"""Pixel counts by reference class and predicted class, and the measures computed from them."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Confusion:
    """Pixel counts `[classes, classes]`, reference x prediction; ignored pixels are not counted.

    The confusions of several photos are added up before the measures are computed. An undefined value is NaN in an
    array and None otherwise.

    Attributes:
      counts: int64 `[classes, classes]`; `counts[r, p]` is the number of pixels of class r that are predicted as p.
    """

    counts: np.ndarray

    @classmethod
    def empty(cls, num_classes: int) -> "Confusion":
        """Returns a confusion without pixels."""
        return cls(np.zeros((num_classes, num_classes), np.int64))

    def __add__(self, other: "Confusion") -> "Confusion":
        return Confusion(self.counts + other.counts)

    @property
    def correct(self) -> np.ndarray:
        """The number of correct pixels of each class, int64 `[classes]`."""
        return np.diag(self.counts)

    @property
    def reference(self) -> np.ndarray:
        """The number of pixels per class in the reference, int64 `[classes]`."""
        return self.counts.sum(axis=1)

    @property
    def prediction(self) -> np.ndarray:
        """The number of pixels per class in the prediction, int64 `[classes]`."""
        return self.counts.sum(axis=0)

    @property
    def union(self) -> np.ndarray:
        """The number of pixels per class in the reference or the prediction, int64 `[classes]`."""
        return self.reference + self.prediction - self.correct

    @property
    def iou(self) -> np.ndarray:
        """Intersection over union of each class, float64 `[classes]`; NaN if neither image has the class."""
        return _ratio(self.correct, self.union)

    @property
    def accuracy(self) -> np.ndarray:
        """Correct pixels / reference pixels for each class, float64 `[classes]`; NaN without a reference."""
        return _ratio(self.correct, self.reference)

    @property
    def mean_iou(self) -> float | None:
        """The mean IoU over classes in the reference or the prediction, as in `tf.keras.metrics.MeanIoU`.

        >>> Confusion(np.array([[4, 0, 0], [2, 2, 0], [0, 0, 0]])).mean_iou  # (4 / 6 + 2 / 4) / 2
        0.5833333333333333
        """
        return _mean(self.iou)

    @property
    def mean_class_accuracy(self) -> float | None:
        """The mean accuracy over the reference classes."""
        return _mean(self.accuracy)

    @property
    def pixel_accuracy(self) -> float | None:
        """Correct pixels / all pixels."""
        total = int(self.counts.sum())
        return int(self.correct.sum()) / total if total else None

    @property
    def frequency_weighted_iou(self) -> float | None:
        """The mean IoU over the classes, weighted by their reference pixels."""
        total = int(self.counts.sum())
        return float(np.nansum(self.reference * self.iou)) / total if total else None


def confusion(prediction: np.ndarray, reference: np.ndarray, num_classes: int, ignore_label: int = 255) -> Confusion:
    """Counts the pixels of a photo.

    Args:
      prediction: classes `[height, width]`.
      reference: classes and the ignore label, `[height, width]`.
      num_classes: the number of classes.
      ignore_label: the reference label whose pixels do not count.
    """
    counted = reference != ignore_label
    codes = reference[counted].astype(np.int64) * num_classes + prediction[counted]
    return Confusion(np.bincount(codes, minlength=num_classes**2).reshape(num_classes, num_classes).astype(np.int64))


def _ratio(numbers: np.ndarray, totals: np.ndarray) -> np.ndarray:
    return np.where(totals > 0, numbers / np.maximum(totals, 1), np.nan)


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
