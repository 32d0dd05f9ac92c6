"""COCO scores for boxes or masks, computed by pycocotools."""

import contextlib
import copy
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage

# COCO's twelve measures, in the order of `COCOeval.stats`.
MEASURES = (
    *("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large"),
    *("ar1", "ar10", "ar100", "ar_small", "ar_medium", "ar_large"),
)
BOXES, MASKS = "boxes", "masks"
_IOU_TYPES = {BOXES: "bbox", MASKS: "segm"}
CURVES = {"ap50": "IoU 0.5", "ap75": "IoU 0.75", "ap": "mean of IoU 0.5 to 0.95"}
_IOU_50, _IOU_75 = 0, 5  # positions of the thresholds 0.5 and 0.75 in `COCOeval.params.iouThrs`
_ALL, _MAX_DETECTIONS = 0, 2  # positions of "objects of all sizes" and "100 detections per image"


@dataclass(frozen=True)
class Matches:
    """The pairs of objects and detections of an image at an IoU of 0.5.

    Attributes:
      objects: {position in `ObjectImage.objects`: the position of its detection in the image's results, or None}.
        Crowd regions are excluded.
      scores: {position of a detection: its score}. Detections of crowd regions are excluded.
    """

    objects: dict[int, int | None]
    scores: dict[int, float]

    def found(self, threshold: float) -> set[int]:
        """Returns the positions of the detections with an object."""
        pairs = self.objects.values()
        return {detection for detection in pairs if detection is not None and self.scores[detection] >= threshold}

    def false(self, threshold: float) -> set[int]:
        """Returns the positions of the detections without an object."""
        counted = {detection for detection, score in self.scores.items() if score >= threshold}
        return counted - self.found(threshold)

    def missed(self, threshold: float) -> set[int]:
        """Returns the positions of the objects without a detection."""
        found = self.found(threshold)
        return {position for position, detection in self.objects.items() if detection not in found}


@dataclass(frozen=True, eq=False)
class CocoScores:
    """The box or mask scores of all images.

    Attributes:
      measures: COCO's twelve measures by the names in `MEASURES`; None if there are no such objects.
      categories: the same measures for each category, and "objects", its number of objects without crowd regions.
      curves: the precision at the recalls 0, 0.01, ..., 1, float `[101]`, by the names in `CURVES` and the name of a
        category, or "" for the mean over all categories. Categories without objects have no curves.
      matches: the pairs of each image at an IoU of 0.5, in image order.
    """

    measures: dict[str, float | None]
    categories: dict[str, dict[str, float | int | None]]
    curves: dict[str, dict[str, np.ndarray]]
    matches: tuple[Matches, ...]


def score_objects(
    images: Sequence[ObjectImage],
    results: Sequence[Mapping[str, Any]],
    description: ObjectDescription,
    what: str = BOXES,
) -> CocoScores:
    """Scores detections as COCO does; crowd regions are ignored.

    Args:
      images: the images with their objects.
      results: the detections of all images in COCO's results format.
      description: the categories.
      what: `BOXES` or `MASKS`. Masks are small, medium or large by the area of the mask, as in COCO.

    Raises:
      DataError: masks are scored, but an object has none.
    """
    if what == MASKS:
        _check_masks(images)
    truth, positions = _ground_truth(images, description)
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its progress
        truth.createIndex()
        evaluation = COCOeval(truth, _load(truth, results, what), _IOU_TYPES[what])
        evaluation.params.imgIds = [image.image_id for image in images]
        evaluation.params.catIds = [*description.ids]
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    counts = _counts(images, len(description.categories))
    order = [int(coco_id) for coco_id in evaluation.params.catIds]  # pycocotools sorts them
    columns = {name: order.index(coco_id) for coco_id, name in description.categories}
    categories: dict[str, dict[str, float | int | None]] = {
        name: {**_category_measures(evaluation, column), "objects": count}
        for (name, column), count in zip(columns.items(), counts, strict=True)
    }
    present = {name: column for (name, column), count in zip(columns.items(), counts, strict=True) if count}
    measures = {name: _number(value) for name, value in zip(MEASURES, evaluation.stats, strict=True)}
    curves = _curves(evaluation, present)
    return CocoScores(measures, categories, curves, _matches(evaluation, images, results, positions))


def _ground_truth(images: Sequence[ObjectImage], description: ObjectDescription) -> tuple[COCO, list[int]]:
    """Returns the objects for pycocotools, not yet indexed, and the position of each object in its image.

    The objects are numbered from 1, because pycocotools counts matches with the object 0 as errors.
    """
    truth, annotations, positions = COCO(), [], []
    for image in images:
        for position, one in enumerate(image.objects or ()):
            y0, x0, y1, x1 = one.box
            positions.append(position)
            annotation = {
                "id": len(positions),
                "image_id": image.image_id,
                "category_id": description.ids[one.category],
                "bbox": [x0, y0, x1 - x0, y1 - y0],
                "area": one.area,
                "iscrowd": int(one.is_crowd),
            }
            if one.segmentation is not None:
                is_encoded = isinstance(one.segmentation, dict)
                annotation["segmentation"] = (
                    one.segmentation if is_encoded else [polygon.tolist() for polygon in one.segmentation]
                )
            annotations.append(annotation)
    truth.dataset = {
        "images": [{"id": image.image_id, "height": image.height, "width": image.width} for image in images],
        "categories": [{"id": coco_id, "name": name} for coco_id, name in description.categories],
        "annotations": annotations,
    }
    return truth, positions


def _check_masks(images: Sequence[ObjectImage]) -> None:
    """Raises DataError if an object has no mask."""
    for image in images:
        for one in image.objects or ():
            if one.segmentation is None:
                raise DataError(
                    f"{image.image}: the annotation {one.annotation_id} has no segmentation, but the network predicts "
                    "masks, which are scored. Fix: add the segmentations, or train a network that predicts boxes only."
                )


def _load(truth: COCO, results: Sequence[Mapping[str, Any]], what: str) -> COCO:
    """Returns the detections for pycocotools, whose `loadRes` fails without detections and prefers box areas.

    Detections are numbered from 1, in order.
    """
    unused = "bbox" if what == MASKS else "segmentation"
    own = [{key: copy.copy(value) for key, value in result.items() if key != unused} for result in results]
    if own:
        return truth.loadRes(own)
    empty = COCO()
    empty.dataset = {**truth.dataset, "annotations": []}
    empty.createIndex()
    return empty


def _category_measures(evaluation: COCOeval, category: int) -> dict[str, float | None]:
    """Returns the twelve measures of one category, as `COCOeval.summarize` computes them for all categories."""
    precision = evaluation.eval["precision"][:, :, category]  # [IoUs, recalls, areas, max detections]
    recall = evaluation.eval["recall"][:, category]  # [IoUs, areas, max detections]
    small, medium, large = 1, 2, 3
    parts = (
        precision[..., _ALL, _MAX_DETECTIONS],
        precision[_IOU_50, :, _ALL, _MAX_DETECTIONS],
        precision[_IOU_75, :, _ALL, _MAX_DETECTIONS],
        *(precision[..., area, _MAX_DETECTIONS] for area in (small, medium, large)),
        *(recall[..., _ALL, number] for number in range(3)),
        *(recall[..., area, _MAX_DETECTIONS] for area in (small, medium, large)),
    )
    values = (part[part > -1] for part in parts)
    return {name: float(value.mean()) if value.size else None for name, value in zip(MEASURES, values, strict=True)}


def _curves(evaluation: COCOeval, columns: Mapping[str, int]) -> dict[str, dict[str, np.ndarray]]:
    """Returns the precision-recall curves of the given category columns, and their mean."""
    precision = evaluation.eval["precision"][..., _ALL, _MAX_DETECTIONS]  # [IoUs, recalls, categories]
    curves: dict[str, dict[str, np.ndarray]] = {}
    for curve, rows in {"ap50": precision[[_IOU_50]], "ap75": precision[[_IOU_75]], "ap": precision}.items():
        by_name = {name: rows[..., column].mean(axis=0) for name, column in columns.items()}
        mean = {"": np.mean([*by_name.values()], axis=0)} if by_name else {}
        curves[curve] = mean | by_name
    return curves


def _number(value: float) -> float | None:
    """Converts a pycocotools number, which is -1 if undefined."""
    return None if value < 0 else float(value)


def _counts(images: Sequence[ObjectImage], number: int) -> list[int]:
    """Returns the number of objects of each category without crowd regions."""
    classes = [one.category for image in images for one in image.objects or () if not one.is_crowd]
    return np.bincount(np.array(classes, np.int64), minlength=number).tolist()


def _matches(
    evaluation: COCOeval,
    images: Sequence[ObjectImage],
    results: Sequence[Mapping[str, Any]],
    positions: Sequence[int],
) -> tuple[Matches, ...]:
    """Returns the pairs of each image at an IoU of 0.5."""
    pairs = {image.image_id: Matches({}, {}) for image in images}
    counts: dict[int, int] = {}
    places = []  # position of each detection in its image's results
    for result in results:
        place = counts.get(result["image_id"], 0)
        places.append(place)
        counts[result["image_id"]] = place + 1
    for one in evaluation.evalImgs:
        if one is None or one["aRng"] != evaluation.params.areaRng[_ALL]:
            continue
        own = pairs[one["image_id"]]
        ignored = one["dtIgnore"][_IOU_50]
        for number, score, is_ignored in zip(one["dtIds"], one["dtScores"], ignored, strict=True):
            if not is_ignored:
                own.scores[places[number - 1]] = float(score)
        for number, detection, is_ignored in zip(one["gtIds"], one["gtMatches"][_IOU_50], one["gtIgnore"], strict=True):
            if not is_ignored:
                own.objects[positions[number - 1]] = places[int(detection) - 1] if detection else None
    return tuple(pairs[image.image_id] for image in images)
