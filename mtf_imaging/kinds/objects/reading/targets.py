"""The boxes, classes and masks of an image as training targets."""

from typing import NamedTuple

import numpy as np

from mtf_imaging.data.pixels.crop_axis import CropAxis
from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.objects.reading.instances import Annotated
from mtf_imaging.kinds.objects.reading.masks import crop_mask, decode_mask

NO_CLASS = -1


class Targets(NamedTuple):
    """The targets of a crop, padded to a fixed number of boxes.

    Attributes:
      boxes: float32 `[max_boxes, 4]`, y0, x0, y1, x1 in pixels of the crop; 0 for padding.
      classes: int32 `[max_boxes]`; -1 for padding.
      masks: float32 `[max_boxes, mask_size, mask_size]` in 0..1, each mask within its box; 0 for padding.
    """

    boxes: np.ndarray
    classes: np.ndarray
    masks: np.ndarray


def no_targets(max_boxes: int, mask_size: int) -> Targets:
    """Returns the targets of an image without objects."""
    return Targets(
        np.zeros((max_boxes, 4), np.float32),
        np.full(max_boxes, NO_CLASS, np.int32),
        np.zeros((max_boxes, mask_size, mask_size), np.float32),
    )


def make_targets(
    image: ObjectImage, rows: CropAxis, columns: CropAxis, mirrored: bool, max_boxes: int, mask_size: int
) -> Targets:
    """Returns the targets of a crop.

    Crowd regions are skipped. Boxes are clipped to the crop, and empty boxes are dropped. If there are more than
    `max_boxes`, the boxes with the largest area in the crop remain; among equal areas, the first ones in the file. The
    boxes are in file order.

    Args:
      image: the image with its objects.
      rows, columns: the position of the crop.
      mirrored: whether the crop is mirrored left and right.
      max_boxes: the number of boxes.
      mask_size: height and width of the masks; 0 for no masks.

    Raises:
      DataError: masks are needed, but an object has no mask or an invalid one.
    """
    objects = [one for one in image.objects or () if not one.is_crowd]
    targets = no_targets(max_boxes, mask_size)
    if not objects:
        return targets
    factors, firsts = (
        np.array([*pair, *pair]) for pair in zip(*((axis.factor, axis.first) for axis in (rows, columns)))
    )
    height, width = len(rows.centers), len(columns.centers)
    boxes = np.array([one.box for one in objects]) * factors - firsts
    boxes = np.clip(boxes, 0, [height, width, height, width])
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    largest = np.argsort(-areas, kind="stable")[:max_boxes]
    chosen = np.sort(largest[areas[largest] > 0])
    targets.boxes[: len(chosen)] = boxes[chosen]
    targets.classes[: len(chosen)] = [objects[at].category for at in chosen]
    if mask_size:
        for number, at in enumerate(chosen):
            y0, x0, y1, x1 = (boxes[at] + firsts) / factors
            targets.masks[number] = crop_mask(_mask(objects[at], image), (y0, x0, y1, x1), mask_size)
    if mirrored:
        targets.boxes[: len(chosen), 1::2] = width - targets.boxes[: len(chosen), :0:-2]
        return targets._replace(masks=targets.masks[..., ::-1])
    return targets


def _mask(one: Annotated, image: ObjectImage) -> np.ndarray:
    where = f"{image.image}: the annotation {one.annotation_id}"
    if one.segmentation is None:
        raise DataError(
            f"{where} has a box but no segmentation, which training with masks needs. "
            "Fix: add it, or train a network for boxes."
        )
    try:
        return decode_mask(one.segmentation, image.height, image.width)
    except DataError as error:
        raise DataError(f"{where} is invalid: {error}") from error
