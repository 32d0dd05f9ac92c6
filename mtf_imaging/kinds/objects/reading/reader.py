"""Reads crops of images and their objects in a `tf.data` pipeline."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.data.pixels.color_jitter import UNCHANGED, Colors, jitter_colors
from mtf_imaging.data.pixels.crop_axis import crop_axis
from mtf_imaging.data.pixels.crops import bilinear, pad_to
from mtf_imaging.errors import MtfImagingError
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage
from mtf_imaging.kinds.objects.reading.images import read_object_image, upright_image
from mtf_imaging.kinds.objects.reading.native import fit_factor
from mtf_imaging.kinds.objects.reading.targets import make_targets, no_targets


class ObjectReader:
    """Reads crops of images with their objects, padded to one size.

    An unreadable image results in a crop of padding, and its error is stored.

    Args:
      images: the images.
      description: the scaling of pixel values.
      size: height and width of the crops.
      max_boxes: the number of boxes.
      mask_size: height and width of the masks; 0 for no masks.

    Attributes:
      images: the images.
      errors: {sample number: error} of unreadable images.
    """

    def __init__(
        self,
        images: Sequence[ObjectImage],
        description: ObjectDescription,
        size: tuple[int, int],
        max_boxes: int,
        mask_size: int,
    ):
        self.images = images
        self.errors: dict[int, MtfImagingError] = {}
        self._description, self._size = description, size
        self._max_boxes, self._mask_size = max_boxes, mask_size

    def crop(self, sample, at, scale, places, mirrored, colors: Colors = UNCHANGED) -> dict:
        """Returns the crop of a sample and its targets.

        Args:
          sample: Tensor[] int64, the sample number.
          at: Tensor[] int64, the index of the image.
          scale: Tensor[] float32, the factor relative to the image that fits the size.
          places: Tensor[2] float32 in 0..1, the position of the crop.
          mirrored: Tensor[] bool, whether to mirror left and right.
          colors: the color changes.

        Returns:
          The image, the boxes, the classes and, if there are any, the masks; see `Objects.batches`.
        """
        types = [tf.uint8, tf.float32, tf.float32, tf.float32, tf.int32, tf.float32]
        read = tf.numpy_function(self._read, [sample, at, scale, places, mirrored], types)
        masks = [self._max_boxes, self._mask_size, self._mask_size]
        shapes = [None, None, 3], [None], [None], [self._max_boxes, 4], [self._max_boxes], masks
        pixels, rows, columns, *targets = (tf.ensure_shape(x, shape) for x, shape in zip(read, shapes, strict=True))
        image = pad_to(self._description.scale(jitter_colors(bilinear(pixels, rows, columns), colors)), self._size, 0.0)
        sample = {"image": image, **dict(zip(("boxes", "classes", "masks"), targets, strict=True))}
        if not self._mask_size:
            del sample["masks"]
        return sample

    def _read(self, sample: int, at: int, scale: float, places: np.ndarray, mirrored: bool) -> tuple[np.ndarray, ...]:
        """Returns the region that a crop needs, the centers of the crop's rows and columns, and the targets."""
        try:
            image = upright_image(self.images[at])
            factor = float(scale) * fit_factor(image.height, image.width, self._size)
            rows, columns = (
                crop_axis(length, factor, size, float(place))
                for length, size, place in zip((image.height, image.width), self._size, places, strict=True)
            )
            pixels = read_object_image(image, (rows.region, columns.region))
            targets = make_targets(image, rows, columns, bool(mirrored), self._max_boxes, self._mask_size)
        except MtfImagingError as error:
            # The consumer raises the error. If this function did, TensorFlow would log a traceback and replace it.
            self.errors[int(sample)] = error
            half = np.full(1, 0.5, np.float32)
            return np.zeros((1, 1, 3), np.uint8), half, half, *no_targets(self._max_boxes, self._mask_size)
        # The mirrored crop is padded on the right, like any other crop.
        across = columns.centers[::-1] if mirrored else columns.centers
        return pixels, rows.centers, np.ascontiguousarray(across), *map(np.ascontiguousarray, targets)
