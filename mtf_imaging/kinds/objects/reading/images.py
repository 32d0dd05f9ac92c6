"""Reads the pixels of images with objects, and turns images upright.

Annotations and COCO results refer to the stored pixels of a file. A network gets upright images, turned according to
their EXIF orientation, because most objects look different when they lie on their side.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from mtf_imaging.data.pixels.exif_orientation import UPRIGHT, Orientation, exif_orientation
from mtf_imaging.data.pixels.photo_files import WHOLE, Region, photo_size, read_photo
from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.objects.reading.instances import Annotated
from mtf_imaging.kinds.objects.reading.masks import decode_mask, encode_mask
from mtf_imaging.kinds.objects.scoring.detections import BOX_DIGITS, Detections


class ReadImage(NamedTuple):
    """An image whose pixels are in memory.

    Attributes:
      stored: the image as stored in its file and annotations.
      upright: the image after turning it according to its EXIF orientation.
      pixels: the pixels of the upright image, uint8 `[height, width, 3]`.
    """

    stored: ObjectImage
    upright: ObjectImage
    pixels: np.ndarray


def read_image(image: ObjectImage) -> ReadImage:
    """Reads an image, and turns it upright.

    Raises:
      DataError: the file is missing or damaged, or contradicts its annotations.
    """
    upright = upright_image(image)
    return ReadImage(image, upright, read_object_image(upright))


def read_object_image(image: ObjectImage, region: Region = WHOLE) -> np.ndarray:
    """Reads an image: the stored pixels, or upright ones if `upright_image` returned the image.

    Args:
      image: the image.
      region: the rows and columns to return.

    Returns:
      uint8 `[height, width, 3]`.

    Raises:
      DataError: the file is missing or damaged, or does not have the size in the annotations.
    """
    size, expected = photo_size(image.image), image.orientation.upright_size(image.height, image.width)
    if size != expected:
        turned = exif_orientation(image.image).upright_size(*size) == expected
        why = " The annotations refer to the turned image, not to the stored pixels." if turned else ""
        fix = "Fix: store the turned pixels without an EXIF orientation." if turned else "Fix: make the sizes equal."
        raise DataError(
            f"{image.image}: is {size[1]} pixels wide and {size[0]} high, but the annotations of the image "
            f"{image.image_id} state {expected[1]} wide and {expected[0]} high.{why} {fix}"
        )
    return read_photo(image.image, region, upright=image.orientation != UPRIGHT)


def upright_image(image: ObjectImage) -> ObjectImage:
    """Turns an image and its objects upright by its EXIF orientation; returns an upright image unchanged.

    Polygons of turned objects are converted to run lengths.

    Raises:
      DataError: the file is missing or damaged, or a segmentation does not fit the image.
    """
    orientation = exif_orientation(image.image)
    if orientation == UPRIGHT:
        return image
    height, width = orientation.upright_size(image.height, image.width)

    def turn(one: Annotated) -> Annotated:
        box = orientation.turn_boxes(np.array(one.box), height, width).tolist()
        segmentation = one.segmentation
        if segmentation is not None:
            segmentation = encode_mask(orientation.turn(decode_mask(segmentation, image.height, image.width)))
        return one._replace(box=tuple(box), segmentation=segmentation)

    objects = None if image.objects is None else tuple(map(turn, image.objects))
    return dataclasses.replace(image, height=height, width=width, objects=objects, orientation=orientation)


def stored_detections(detections: Detections, image: ObjectImage) -> Detections:
    """Converts detections in an image from `upright_image` to stored pixel coordinates."""
    orientation, size = image.orientation, (image.height, image.width)
    boxes = orientation.turn_boxes_back(detections.boxes, *size)
    return _turned(detections, orientation, boxes, size, back=True)


def upright_detections(detections: Detections, image: ObjectImage) -> Detections:
    """Converts detections in stored pixel coordinates to an image from `upright_image`."""
    orientation, size = image.orientation, (image.height, image.width)
    boxes = orientation.turn_boxes(detections.boxes, *size)
    return _turned(detections, orientation, boxes, orientation.upright_size(*size), back=False)


def _turned(
    detections: Detections, orientation: Orientation, boxes: np.ndarray, size: tuple[int, int], back: bool
) -> Detections:
    """Returns detections with the given boxes and turned masks; `size` is the current size of the masks."""
    if orientation == UPRIGHT:
        return detections
    masks = detections.masks
    if masks is not None:
        turn = orientation.turn_back if back else orientation.turn
        masks = tuple(encode_mask(turn(decode_mask(mask, *size))) for mask in masks)
    return dataclasses.replace(detections, boxes=np.round(boxes, BOX_DIGITS), masks=masks)


class Seen(NamedTuple):
    """An image with its objects and the detections in it, for pictures.

    Attributes:
      pixels: uint8 `[height, width, 3]`.
      image: the objects.
      detections: the detections.
    """

    pixels: np.ndarray
    image: ObjectImage
    detections: Detections


def seen(image: ObjectImage, detections: Detections) -> Seen:
    """Returns the upright pixels of an image, its upright objects, and the detections in them."""
    upright = upright_image(image)
    return Seen(read_object_image(upright), upright, upright_detections(detections, upright))
