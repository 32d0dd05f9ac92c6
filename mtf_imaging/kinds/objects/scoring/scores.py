"""The scores of all images: COCO measures for boxes and masks, and found and missed objects per image."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.evaluation.volume_scores.files import write_metrics_files
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.objects.scoring.coco import BOXES, MASKS, MEASURES, CocoScores, Matches, score_objects
from mtf_imaging.kinds.objects.scoring.detections import Detections
from mtf_imaging.plain_text import counted, decimals, text_table

COUNTS = ("objects", "found", "false", "missed")


@dataclass(frozen=True)
class ObjectScore:
    """The objects and detections of one image, matched at an IoU of 0.5.

    Attributes:
      key: the key of the image.
      image_id: its COCO ID.
      size: its height and width.
      found: the number of detections with an object.
      false: the number of detections without an object.
      missed: the number of objects without a detection.
    """

    key: str
    image_id: int
    size: tuple[int, int]
    found: int
    false: int
    missed: int

    @property
    def objects(self) -> int:
        """The number of objects, without crowd regions."""
        return self.found + self.missed

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall; None if the image has neither objects nor detections."""
        total = 2 * self.found + self.false + self.missed
        return 2 * self.found / total if total else None


@dataclass(frozen=True, eq=False)
class ObjectScores:
    """The scores of all images.

    Attributes:
      boxes: the scores of the boxes.
      masks: the scores of the masks; None if the network does not predict masks.
      threshold: the score that maximizes F1 over all images; None if no detection matches an object, so that F1 is 0
        for any score.
      images: the scores of each image, based on masks if there are any, else on boxes.
    """

    boxes: CocoScores
    masks: CocoScores | None
    threshold: float | None
    images: tuple[ObjectScore, ...]

    @property
    def counted_from(self) -> float:
        """The minimum score of detections that count in `images`: the threshold, or 0 without one."""
        return 0.0 if self.threshold is None else self.threshold

    @property
    def matches(self) -> tuple[Matches, ...]:
        """The pairs of objects and detections of each image at an IoU of 0.5."""
        return (self.masks or self.boxes).matches

    @property
    def by_kind(self) -> dict[str, CocoScores]:
        """The scores of boxes and, if there are any, of masks."""
        return {BOXES: self.boxes} | ({} if self.masks is None else {MASKS: self.masks})


def score_images(
    images: Sequence[ObjectImage], detections: Sequence[Detections], description: ObjectDescription
) -> ObjectScores:
    """Scores the detections of one or more images.

    Args:
      images: the images with their objects.
      detections: the detections of each image. If the first one has masks, masks are scored as well.
      description: the categories.
    """
    pairs = list(zip(images, detections, strict=True))
    results = [one for image, own in pairs for one in own.coco_results(image.image_id, description)]
    boxes = score_objects(images, results, description, BOXES)
    masks = score_objects(images, results, description, MASKS) if detections[0].masks is not None else None
    matches = (masks or boxes).matches
    threshold = best_threshold(matches)
    counted_from = threshold or 0.0
    scores = []
    for image, own in zip(images, matches, strict=True):
        counts = (len(count(counted_from)) for count in (own.found, own.false, own.missed))
        scores.append(ObjectScore(image.key, image.image_id, (image.height, image.width), *counts))
    return ObjectScores(boxes, masks, threshold, tuple(scores))


def best_threshold(matches: Sequence[Matches]) -> float | None:
    """Returns the minimum score of detections that maximizes F1 over all images; None without a match.

    >>> best_threshold([Matches({0: 0, 1: None}, {0: 0.9, 1: 0.5, 2: 0.1})])
    0.9
    """
    paired = [{*own.objects.values()} for own in matches]
    rows = [
        (score, place in pairs)
        for own, pairs in zip(matches, paired, strict=True)
        for place, score in own.scores.items()
    ]
    rows.sort(key=lambda row: -row[0])
    if not any(is_found for _, is_found in rows):
        return None
    scores = np.array([score for score, _ in rows])
    found = np.cumsum([is_found for _, is_found in rows])
    f1 = 2 * found / (np.arange(1, len(rows) + 1) + sum(len(own.objects) for own in matches))
    f1[:-1][scores[:-1] == scores[1:]] = 0  # detections with the same score count together
    return float(scores[f1.argmax()])


def worst_first(scores: Sequence[ObjectScore]) -> list[int]:
    """Returns the numbers of the images in ascending order of F1; images without objects and detections come last."""
    return sorted(range(len(scores)), key=lambda n: math.inf if (f1 := scores[n].f1) is None else f1)


def object_metrics(scores: ObjectScores) -> dict[str, Any]:
    """Returns the contents of `metrics.json`.

    Returns:
      `{"boxes": {"ap": ..., "ap50": ..., ..., "categories": {name: {"ap": ..., ..., "objects": ...}}}, "masks": {...},
      "score_threshold": ..., "objects": ..., "found": ..., "false": ..., "missed": ..., "f1": ...,
      "images": {key: {"image_id": ..., "size": [height, width], "objects": ..., "found": ..., "false": ...,
      "missed": ..., "f1": ...}}}`. The box and mask measures are `coco.MEASURES`; None if there are no such
      objects. "score_threshold" is None if no detection matches an object, and then all detections count. Without
      masks, the key "masks" is missing.
    """
    parts: dict[str, Any] = {
        name: {**part.measures, "categories": part.categories} for name, part in scores.by_kind.items()
    }
    totals = {name: sum(getattr(one, name) for one in scores.images) for name in COUNTS}
    whole = ObjectScore("", 0, (0, 0), totals["found"], totals["false"], totals["missed"])
    images = {
        one.key: {
            "image_id": one.image_id,
            "size": [*one.size],
            **{name: getattr(one, name) for name in COUNTS},
            "f1": one.f1,
        }
        for one in scores.images
    }
    return {**parts, "score_threshold": scores.threshold, **totals, "f1": whole.f1, "images": images}


def write_object_metrics(
    output_dir: str | Path, scores: ObjectScores, provenance: Mapping[str, Any] | None = None
) -> None:
    """Writes `metrics.json` and `metrics.csv` to a folder; each file is replaced atomically.

    `metrics.csv` has one row for all categories and one for each category, for boxes and masks; an undefined value
    is an empty field.
    """
    metrics = object_metrics(scores)
    rows: list[tuple] = []
    for kind, part in scores.by_kind.items():
        rows.append((kind, "", *part.measures.values(), metrics["objects"]))
        rows += [(kind, name, *values.values()) for name, values in part.categories.items()]
    write_metrics_files(output_dir, metrics, ("kind", "category", *MEASURES, "objects"), rows, provenance)


def scores_table(scores: ObjectScores) -> str:
    """Returns a plain-text table of the average precision for each category and for all."""
    names = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large", "ar100")
    heads = ("AP", "AP50", "AP75", "small", "medium", "large", "AR100")
    lines = []
    for kind, part in scores.by_kind.items():
        rows = [["category", *heads, "objects"]]
        for name, values in (*part.categories.items(), ("all", part.measures)):
            count = values["objects"] if "objects" in values else sum(one.objects for one in scores.images)
            rows.append([name, *(decimals(values[key]) for key in names), str(count)])
        lines += [kind, *text_table(rows, (0, 6))]
    return "\n".join([*lines, counted(len(scores.images), "image")])
