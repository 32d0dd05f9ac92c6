"""Writes maps of a volume as NIfTI."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import nibabel
import numpy as np
from nibabel.openers import ImageOpener

from mtf_imaging.data.formats.label_slabs import numbered_slabs
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.files.atomic import atomic_path

_COPY_BYTES = 1 << 20


def write_nifti_maps(path: str | Path, slabs: Iterable[np.ndarray], geometry: Geometry, count: int) -> None:
    """Writes maps as float32, in the position of their volume; see `write_map_slabs`.

    A file stores one map after the other, but a slab contains a part of each map. The maps are therefore written to an
    uncompressed file first, which is then compressed.

    Args:
      path: the .nii or .nii.gz file to write or replace.
      slabs: the values, float32 `[x, y, z, count]`.
      geometry: geometry of the volume.
      count: number of maps.
    """
    image = _empty_image(geometry, count)
    with atomic_path(path) as temporary, _plain_file(temporary) as file:
        image.header.write_to(file)
        start = image.header.get_data_offset()
        width, height, depth = geometry.stored_shape
        for first, slab in numbered_slabs(path, slabs, geometry):
            stored = geometry.to_stored(slab)
            for number in range(count):
                file.seek(start + 4 * width * height * (number * depth + first))
                file.write(stored[..., number].astype("<f4").tobytes(order="F"))


@contextlib.contextmanager
def _plain_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a file in which the block writes at any position, and compresses it afterwards if its name ends in .gz."""
    if path.suffix != ".gz":
        with open(path, "w+b") as file:
            yield file
        return
    with tempfile.TemporaryFile(dir=path.parent) as plain:
        yield plain
        plain.seek(0)
        with ImageOpener(path, mode="wb") as file:
            shutil.copyfileobj(plain, file, _COPY_BYTES)


def _empty_image(geometry: Geometry, count: int) -> nibabel.Nifti1Image:
    """Returns an image with the header of the maps, and without voxels in memory."""
    header = geometry.header.copy()
    header = header.as_byteswapped("<")
    header.set_data_dtype(np.float32)
    header["cal_min"] = header["cal_max"] = header["intent_code"] = 0
    shape = geometry.stored_shape if count == 1 else (*geometry.stored_shape, count)
    image_class = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    image = image_class(np.broadcast_to(np.float32(0), shape), geometry.label_affine, header)
    image.update_header()
    image.header.set_slope_inter(1, 0)
    return image
