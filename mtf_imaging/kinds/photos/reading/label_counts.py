"""Counts the labels of photos."""

from collections.abc import Sequence

import numpy as np

from mtf_imaging.data.class_frequencies import MOST_IMAGES, NUM_VALUES, evenly_spread
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.folders import Photo
from mtf_imaging.kinds.photos.reading.label_images import read_label_image


def count_labels(photos: Sequence[Photo], description: PhotoDescription, most: int = MOST_IMAGES) -> np.ndarray:
    """Counts the pixels of each label in the label images of photos.

    Args:
      photos: the photos.
      description: their classes.
      most: the number of label images to read if there are more photos. They are spread evenly over the sequence.

    Returns:
      int64 `[256]`, the number of pixels of each label.

    Raises:
      DataError: a label image is damaged.
    """
    counts = np.zeros(NUM_VALUES, np.int64)
    for photo in evenly_spread(photos, most):
        labels = read_label_image(photo.labels, description)
        counts += np.bincount(labels.ravel(), minlength=NUM_VALUES)
    return counts
