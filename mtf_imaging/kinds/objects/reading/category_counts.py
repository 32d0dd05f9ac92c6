"""Counts the objects of each category."""

from collections.abc import Sequence

import numpy as np

from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.kinds.objects.description import ObjectDescription
from mtf_imaging.kinds.objects.reading.annotations import ObjectImage


def survey_objects(images: Sequence[ObjectImage], description: ObjectDescription) -> LabelSurvey:
    """Returns the number of objects of each category, without crowd regions, in all images.

    Args:
      images: the annotated images.
      description: the categories.
    """
    counts = np.zeros(len(description.names), np.int64)
    for image in images:
        for one in image.objects or ():
            counts[one.category] += not one.is_crowd
    return LabelSurvey(
        names={name: number for number, name in enumerate(description.names)},
        counts=counts,
        ignored=(),
        num_counted=len(images),
        num_images=len(images),
        unit="object",
        images="images",
        source="the categories",
        cause="" if counts.any() else "no image has an annotated object to detect. Fix: add annotations",
    )
