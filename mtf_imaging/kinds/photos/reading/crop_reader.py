"""Reads crops of photos in a `tf.data` pipeline."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.data.pixels.color_jitter import UNCHANGED, Colors, jitter_colors
from mtf_imaging.data.pixels.crop_axis import crop_axis
from mtf_imaging.data.pixels.crops import bilinear, nearest, pad_to
from mtf_imaging.data.pixels.photo_files import photo_size
from mtf_imaging.errors import MtfImagingError
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.folders import Photo
from mtf_imaging.kinds.photos.reading.label_images import read_labeled_photo


class CropReader:
    """Reads crops of photos, padded to one size.

    An unreadable photo results in a crop of padding, and its error is stored.

    Args:
      photos: the photos.
      description: the classes and the scaling.
      size: height and width of the crops.

    Attributes:
      photos: the photos.
      errors: {sample number: error} of unreadable photos.
    """

    def __init__(self, photos: Sequence[Photo], description: PhotoDescription, size: tuple[int, int]):
        self.photos = photos
        self.errors: dict[int, MtfImagingError] = {}
        self._description, self._size = description, size

    def crop(self, sample, at, scale, places, colors: Colors = UNCHANGED) -> tuple:
        """Returns the crop of a sample.

        Args:
          sample: Tensor[] int64, the sample number.
          at: Tensor[] int64, the index of the photo.
          scale: Tensor[] float32, the factor of the height and width.
          places: Tensor[2] float32 in 0..1, the position of the crop.
          colors: the color changes.

        Returns:
          The image, Tensor[height, width, 3] float32, and the labels, Tensor[height, width] int32.
        """
        types = [tf.uint8, tf.uint8, tf.float32, tf.float32]
        pixels, labels, rows, columns = tf.numpy_function(self._read, [sample, at, scale, places], types)
        pixels.set_shape([None, None, 3])
        labels.set_shape([None, None])
        rows.set_shape([None])
        columns.set_shape([None])
        image = self._description.scale(jitter_colors(bilinear(pixels, rows, columns), colors))
        labels = nearest(labels, rows, columns)
        padded = pad_to(image, self._size, 0.0), pad_to(labels, self._size, self._description.ignore_label)
        return padded[0], tf.cast(padded[1], tf.int32)

    def _read(self, sample: int, at: int, scale: float, places: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns the region that a crop needs, its labels, and the centers of the crop's rows and columns."""
        photo = self.photos[at]
        try:
            height, width = photo_size(photo.image)
            rows = crop_axis(height, float(scale), self._size[0], float(places[0]))
            columns = crop_axis(width, float(scale), self._size[1], float(places[1]))
            pixels, labels = read_labeled_photo(photo, self._description, (rows.region, columns.region))
        except MtfImagingError as error:
            # The consumer raises the error. If this function did, TensorFlow would log a traceback and replace it.
            self.errors[int(sample)] = error
            half = np.full(1, 0.5, np.float32)
            return np.zeros((1, 1, 3), np.uint8), np.zeros((1, 1), np.uint8), half, half
        return pixels, labels, rows.centers, columns.centers
