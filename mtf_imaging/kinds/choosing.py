"""Chooses the kind of the images of a data set."""

from typing import Any

from mtf_imaging.kinds.kind import ImageKind
from mtf_imaging.kinds.objects.data_set import Objects
from mtf_imaging.kinds.objects.training import ObjectKind
from mtf_imaging.kinds.photos.data_set import Photos
from mtf_imaging.kinds.photos.training import PhotoKind


def image_kind(data_set: Any) -> ImageKind | None:
    """Returns the kind of the images of a data set; None for records and custom data sets."""
    if isinstance(data_set, Photos):
        return PhotoKind(data_set)
    return ObjectKind(data_set) if isinstance(data_set, Objects) else None
