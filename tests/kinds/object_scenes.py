"""Images with objects and detections for tests of scores, pictures and reports."""

from pathlib import Path

import numpy as np

from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.objects.reading.instances import Annotated
from mtf_imaging.kinds.objects.reading.masks import encode_mask
from mtf_imaging.kinds.objects.scoring.detections import Detections

TWO = ObjectDescription(((7, "cup"), (3, "fork")))  # the order of the classes is not that of the IDs


def make_object(category, box, is_crowd=False, segmentation=None, number=1):
    """Returns an object; the box is y0, x0, y1, x1, and the default segmentation is its rectangle."""
    y0, x0, y1, x1 = map(float, box)
    corners = (np.array([x0, y0, x1, y0, x1, y1, x0, y1]),)
    area = (y1 - y0) * (x1 - x0)
    return Annotated(category, (y0, x0, y1, x1), segmentation or corners, is_crowd, area, number)


def make_image(key, image_id, objects, size=(60, 80)):
    """Returns an image, whose file does not exist."""
    return ObjectImage(key, Path(f"{key}.png"), image_id, *size, tuple(objects))


def detect(*rows, masks=False, size=(60, 80)):
    """Returns detections; each row is a class, a score and a box y0, x0, y1, x1. Masks fill their boxes."""
    boxes = np.array([box for _, _, box in rows], np.float64).reshape(-1, 4)
    scores, classes = np.array([row[1] for row in rows], np.float64), np.array([row[0] for row in rows], np.int64)
    return Detections(boxes, scores, classes, tuple(_filled(box, size) for box in boxes) if masks else None)


def _filled(box, size):
    mask = np.zeros(size, bool)
    y0, x0, y1, x1 = np.rint(box).astype(int)
    mask[y0:y1, x0:x1] = True
    return encode_mask(mask)
