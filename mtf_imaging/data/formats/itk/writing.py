"""Writes segmentations as NRRD or MetaImage."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.itk.geometry import place_of
from mtf_imaging.data.formats.label_slabs import numbered_slabs, with_type
from mtf_imaging.data.formats.packages import import_simpleitk
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.listing.image_formats import METAIMAGE
from mtf_imaging.data.listing.itk_headers import PROVENANCE_KEY
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.provenance.provenance import Provenance


def write_itk_labels(
    path: Path, slabs: Iterable[np.ndarray], geometry: Geometry, provenance: Provenance | None = None
) -> None:
    """Writes a compressed segmentation in the position of its volume; see `write_label_slabs`.

    SimpleITK needs two copies of all labels in memory: 2 bytes per voxel. The provenance is stored in the header under
    `PROVENANCE_KEY`: a key/value pair of NRRD, or a field of MetaImage, whose field Comment has the short form.
    """
    simpleitk = import_simpleitk(path)
    dtype, slabs = with_type(slabs)
    labels = np.empty(geometry.stored_shape, dtype, order="F")
    for start, slab in numbered_slabs(path, slabs, geometry):
        stored = geometry.to_stored(slab)
        labels[..., start : start + stored.shape[2]] = stored
    image = simpleitk.GetImageFromArray(labels.transpose())
    del labels
    place = place_of(geometry)
    image.SetOrigin(place.origin)
    image.SetSpacing(place.spacing)
    image.SetDirection(place.direction)
    if provenance is not None:
        image.SetMetaData(PROVENANCE_KEY, provenance.text())
        if METAIMAGE.stem(path) is not None:
            image.SetMetaData("Comment", provenance.note)  # MetaIO limits this field to 255 characters
    with atomic_path(path) as temporary:
        try:
            simpleitk.WriteImage(image, str(temporary), useCompression=True)
        except RuntimeError as error:
            what = f"SimpleITK cannot write this file ({str(error).splitlines()[-1].strip()})"
            fix = "check the free space and the rights of the folder, or write .nii.gz"
            raise DataError(f"{path}: {what}. Fix: {fix}.") from error
