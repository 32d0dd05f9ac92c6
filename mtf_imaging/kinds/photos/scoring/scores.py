"""The scores of each photo and of all photos: `metrics.json`, `metrics.csv` and a plain-text table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.evaluation.volume_scores.files import write_metrics_files
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.scoring.boundary import TOLERANCE, boundary_f
from mtf_imaging.kinds.photos.scoring.confusion import Confusion, confusion
from mtf_imaging.plain_text import counted, decimals, text_table

# The measures over all classes, in the order of metrics.json.
MEASURES = ("mean_iou", "pixel_accuracy", "mean_class_accuracy", "frequency_weighted_iou", "boundary_f")
CLASS_MEASURES = ("iou", "accuracy", "boundary_f", "pixels", "predicted_pixels")


@dataclass(frozen=True, eq=False)
class PhotoScore:
    """The scores of one photo.

    Attributes:
      key: the key of the photo.
      size: its height and width.
      confusion: its pixel counts.
      boundary_f: the boundary F of each class; None if the reference does not have the class.
    """

    key: str
    size: tuple[int, int]
    confusion: Confusion
    boundary_f: tuple[float | None, ...]

    @property
    def mean_iou(self) -> float | None:
        """The mean IoU over the classes of this photo."""
        return self.confusion.mean_iou

    @property
    def pixel_accuracy(self) -> float | None:
        """Correct pixels / all pixels that count."""
        return self.confusion.pixel_accuracy


def score_photo(key: str, prediction: np.ndarray, reference: np.ndarray, description: PhotoDescription) -> PhotoScore:
    """Scores the prediction for one photo.

    Args:
      key: the key of the photo.
      prediction: classes `[height, width]`.
      reference: classes and the ignore label, `[height, width]`.
      description: the classes and the ignore label.

    Raises:
      ShapeError: prediction and reference differ in size.
      DataError: a label is not a class.
    """
    options = len(description.classes), description.ignore_label
    counts = confusion(prediction, reference, *options)
    boundaries = boundary_f(prediction, reference, *options)
    height, width = reference.shape
    return PhotoScore(key, (height, width), counts, tuple(boundaries))


def worst_first(scores: Sequence[PhotoScore]) -> list[int]:
    """Returns the photo numbers in ascending order of the mean IoU; photos without scored pixels come last."""
    return sorted(range(len(scores)), key=lambda n: math.inf if scores[n].mean_iou is None else scores[n].mean_iou)


def total_confusion(scores: Sequence[PhotoScore]) -> Confusion:
    """Returns the pixel counts of all photos."""
    return Confusion(np.sum([score.confusion.counts for score in scores], axis=0, dtype=np.int64))


def photo_metrics(scores: Sequence[PhotoScore], description: PhotoDescription) -> dict:
    """Returns the contents of `metrics.json`.

    Args:
      scores: the scores of one or more photos.
      description: the classes.

    Returns:
      `{"boundary_tolerance": ..., "mean_iou": ..., "pixel_accuracy": ..., "mean_class_accuracy": ...,
      "frequency_weighted_iou": ..., "boundary_f": ..., "classes": {name: {"iou": ..., "accuracy": ...,
      "boundary_f": ..., "pixels": ..., "predicted_pixels": ..., "photos": ...}}, "confusion": [[...], ...],
      "photos": {key: {"size": [height, width], "mean_iou": ..., ..., "classes": {name: {...}}}}}`. An undefined value
      is None. A photo lists the classes in its reference or prediction.
    """
    total = total_confusion(scores)
    by_class = list(zip(*(score.boundary_f for score in scores), strict=True))
    boundaries = [_mean(values) for values in by_class]
    classes = _class_fields(total, boundaries, description)
    for name, values in zip(description.classes, by_class, strict=True):
        classes[name]["photos"] = sum(value is not None for value in values)
    return {
        "boundary_tolerance": TOLERANCE,
        **_fields(total, boundaries),
        "classes": classes,
        "confusion": total.counts.tolist(),
        "photos": {score.key: _photo_fields(score, description) for score in scores},
    }


def write_photo_metrics(
    output_dir: str | Path,
    scores: Sequence[PhotoScore],
    description: PhotoDescription,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Writes `metrics.json` and `metrics.csv` to a folder; each file is replaced atomically.

    `metrics.csv` has a row for each photo and class; an undefined value is an empty field.
    """
    fields = ((score.key, _class_fields(score.confusion, score.boundary_f, description)) for score in scores)
    rows = ((key, name, *values.values()) for key, classes in fields for name, values in classes.items())
    head = ("photo", "class", *CLASS_MEASURES)
    write_metrics_files(output_dir, photo_metrics(scores, description), head, rows, provenance)


def scores_table(scores: Sequence[PhotoScore], description: PhotoDescription) -> str:
    """Returns a plain-text table with the measures of each class, their means, and the pixel accuracy.

    >>> from mtf_imaging.kinds.photos.description import PhotoDescription
    >>> pair = np.array([[0, 0, 1, 1]] * 4), np.array([[0, 0, 0, 1]] * 4)
    >>> two = PhotoDescription(("ground", "tree"), ((0, 0, 0), (0, 255, 0)))
    >>> print(scores_table([score_photo("a", *pair, two)], two))
    class      IoU  accuracy  boundary F  pixels
    ground   0.667     0.667       0.000      12
    tree     0.500     1.000       0.000       4
    mean     0.583     0.833       0.000
    pixel accuracy 0.750, 1 photo
    """
    metrics = photo_metrics(scores, description)
    names = CLASS_MEASURES[:4]
    rows = [[name, *(values[key] for key in names)] for name, values in metrics["classes"].items()]
    means = [metrics[key] for key in ("mean_iou", "mean_class_accuracy", "boundary_f")]
    cells = [[name, *map(decimals, shares), str(pixels)] for name, *shares, pixels in [*rows, ["mean", *means, ""]]]
    lines = text_table([["class", "IoU", "accuracy", "boundary F", "pixels"], *cells], (0, 6))
    pixels = f"pixel accuracy {decimals(metrics['pixel_accuracy'])}, {counted(len(scores), 'photo')}"
    return "\n".join([*lines, pixels])


def _photo_fields(score: PhotoScore, description: PhotoDescription) -> dict:
    fields = _class_fields(score.confusion, score.boundary_f, description)
    present = {name: values for name, values in fields.items() if values["pixels"] or values["predicted_pixels"]}
    return {"size": list(score.size), **_fields(score.confusion, score.boundary_f), "classes": present}


def _fields(counts: Confusion, boundaries: Sequence[float | None]) -> dict[str, float | None]:
    """Returns the measures over all classes by name, in the order of `MEASURES`."""
    values = {name: getattr(counts, name) for name in MEASURES[:-1]}
    return {**values, MEASURES[-1]: _mean(boundaries)}


def _class_fields(
    counts: Confusion, boundaries: Sequence[float | None], description: PhotoDescription
) -> dict[str, dict[str, float | int | None]]:
    """Returns the measures of each class, in the order of `CLASS_MEASURES`."""
    columns = (
        [None if np.isnan(value) else float(value) for value in counts.iou],
        [None if np.isnan(value) else float(value) for value in counts.accuracy],
        boundaries,
        counts.reference.tolist(),
        counts.prediction.tolist(),
    )
    rows = zip(*columns, strict=True)
    return {
        name: dict(zip(CLASS_MEASURES, row, strict=True)) for name, row in zip(description.classes, rows, strict=True)
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """Returns the mean of the defined values; their order does not change the result."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
