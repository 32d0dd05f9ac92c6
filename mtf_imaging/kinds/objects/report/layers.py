"""The pictures of an image with objects for the report: the image as JPEG, and boxes and outlines as SVG shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PIL import Image

from mtf_imaging.evaluation.report.outline import outline
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.pictures import drawn_detections, drawn_objects, resize_mask
from mtf_imaging.kinds.objects.reading.images import Seen
from mtf_imaging.kinds.objects.reading.masks import decode_mask
from mtf_imaging.kinds.objects.scoring.coco import Matches
from mtf_imaging.kinds.output import jpeg, shown_size

MAX_SIDE = 640  # pixels; larger images are shrunk
_QUALITY = 80
# The state of an object or a detection.
FOUND, WRONG, IGNORED = "found", "wrong", "ignored"


@dataclass(frozen=True)
class ObjectShape:
    """An object or a detection in a picture.

    Attributes:
      box: y0, x0, y1 and x1 in pixels of the picture.
      category: the number of the category.
      label: the text on the box.
      state: `FOUND`; `WRONG` for an object without a detection or a detection without an object; or `IGNORED` for a
        crowd region, or a detection of it.
      path: the outline of the mask in half pixels of the picture, or "".
    """

    box: tuple[float, float, float, float]
    category: int
    label: str
    state: str
    path: str


@dataclass(frozen=True)
class ObjectLayers:
    """The pictures of one image.

    Attributes:
      size: height and width of the pictures.
      photo: the image as JPEG.
      objects: the objects of the image.
      detections: the detections with scores of at least the report's threshold.
    """

    size: tuple[int, int]
    photo: bytes
    objects: tuple[ObjectShape, ...]
    detections: tuple[ObjectShape, ...]


def make_object_layers(seen: Seen, matches: Matches, threshold: float, description: ObjectDescription) -> ObjectLayers:
    """Creates the pictures of an image.

    Args:
      seen: the image.
      matches: the pairs of objects and detections.
      threshold: the minimum score of detections that count.
      description: the categories.
    """
    pixels, image, detections = seen
    size = pixels.shape[:2]
    shown = shown_size(size, MAX_SIDE)
    photo = Image.fromarray(pixels)
    if shown != size:
        photo = photo.resize(shown[::-1], Image.Resampling.LANCZOS)

    def shapes(drawn: Sequence[Any], states: Sequence[str]) -> tuple[ObjectShape, ...]:
        factors = shown[0] / size[0], shown[1] / size[1]
        return tuple(
            ObjectShape(
                (one.box[0] * factors[0], one.box[1] * factors[1], one.box[2] * factors[0], one.box[3] * factors[1]),
                one.category,
                one.label,
                state,
                outline(resize_mask(decode_mask(one.mask, *one.mask["size"]), shown)) if one.mask is not None else "",
            )
            for one, state in zip(drawn, states, strict=True)
        )

    missed, found = matches.missed(threshold), matches.found(threshold)
    of_objects = [
        IGNORED if number not in matches.objects else WRONG if number in missed else FOUND
        for number in range(len(image.objects or ()))
    ]
    of_detections = [
        IGNORED if number not in matches.scores else FOUND if number in found else WRONG
        for number, score in enumerate(detections.scores)
        if score >= threshold
    ]
    truth = drawn_objects(image, description, masks=detections.masks is not None)
    return ObjectLayers(
        shown,
        jpeg(photo, _QUALITY),
        shapes(truth, of_objects),
        shapes(drawn_detections(detections, description, threshold), of_detections),
    )
