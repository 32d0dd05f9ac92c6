"""Reads the pixels of images with objects."""

import numpy as np

from mtf_imaging.data.pixels.photo_files import WHOLE, Region, photo_size, read_photo
from mtf_imaging.errors import DataError
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage


def read_object_image(image: ObjectImage, region: Region = WHOLE) -> np.ndarray:
    """Reads an image; as in COCO, the EXIF orientation is ignored.

    Args:
      image: the image.
      region: the rows and columns to return.

    Returns:
      uint8 `[height, width, 3]`.

    Raises:
      DataError: the file is missing or damaged, or has another size than the annotations state.
    """
    size = photo_size(image.image)
    if size != (image.height, image.width):
        raise DataError(
            f"{image.image}: is {size[1]} pixels wide and {size[0]} high, but the annotations of the image "
            f"{image.image_id} state {image.width} wide and {image.height} high. Fix: make the sizes equal."
        )
    return read_photo(image.image, region)
