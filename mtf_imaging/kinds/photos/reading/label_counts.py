"""Counts the labels of photos."""

from collections.abc import Sequence

import numpy as np

from mtf_imaging.data.class_frequencies import MOST_IMAGES, NUM_VALUES, evenly_spread
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.kinds.photos.description import PhotoDescription
from mtf_imaging.kinds.photos.reading.folders import CLASSES_FILE, Photo
from mtf_imaging.kinds.photos.reading.label_images import read_label_image

_WHITE = 255  # the value of a class in binary masks, and the default ignore label


def survey_photos(photos: Sequence[Photo], description: PhotoDescription, most: int = MOST_IMAGES) -> LabelSurvey:
    """Counts the pixels of each label in the label images of photos.

    Args:
      photos: the photos.
      description: the classes.
      most: the maximum number of label images to read, spread evenly over the photos.

    Returns:
      The number of pixels per label, int64 `[256]`.

    Raises:
      DataError: a label image is damaged.
    """
    total, ignored, sample = np.zeros(NUM_VALUES, np.int64), [], evenly_spread(photos, most)
    for photo in sample:
        counts = np.bincount(read_label_image(photo.labels, description).ravel(), minlength=NUM_VALUES)
        if counts[description.ignore_label] == counts.sum():
            ignored.append(photo.key)
        total += counts
    return LabelSurvey(
        names={name: label for label, name in enumerate(description.classes)},
        counts=total,
        ignored=tuple(ignored),
        num_counted=len(sample),
        num_images=len(photos),
        unit="pixel",
        images="label images",
        source="the classes",
        cause=_binary_mask(total, description),
    )


def count_labels(photos: Sequence[Photo], description: PhotoDescription, most: int = MOST_IMAGES) -> np.ndarray:
    """Returns the number of pixels per label, int64 `[256]`; see `survey_photos`."""
    return survey_photos(photos, description, most).counts


def _binary_mask(counts: np.ndarray, description: PhotoDescription) -> str:
    """Returns the warning about label images that are binary masks of 0 and 255, or ""."""
    is_read_unchanged = description.ignore_label == _WHITE and not description.values
    if not is_read_unchanged or len(description.classes) < 2 or [*np.flatnonzero(counts)] != [0, _WHITE]:
        return ""
    first, second = description.classes[:2]
    what = (
        f"the label images hold only the values 0 and {_WHITE}, and {_WHITE} is the ignore_label, so all other pixels "
        f"are '{first}', and every score is perfect. Fix: "
    )
    if len(description.classes) > 2:
        return f"{what}store the label of its class in each pixel"
    values = f'"ignore_label": 254, "values": [[0, 0], [{_WHITE}, 1]]'
    return (
        f"{what}store the pixels of '{second}' as 1; or, if {_WHITE} means '{second}', write {values} in {CLASSES_FILE}"
    )
