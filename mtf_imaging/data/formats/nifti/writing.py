"""Writes segmentations as NIfTI or FreeSurfer, and maps as NIfTI; a file gets its name only when it is complete."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import nibabel
import numpy as np
import numpy.typing as npt
from nibabel.openers import ImageOpener
from nibabel.volumeutils import seek_tell

from mtf_imaging.data.formats.label_slabs import numbered_slabs, with_type
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.listing.image_formats import MGH
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.provenance.provenance import Provenance

_COPY_BYTES = 1 << 20


def write_nifti_labels(
    path: Path, slabs: Iterable[np.ndarray], geometry: Geometry, provenance: Provenance | None = None
) -> None:
    """Writes a segmentation in the position of its volume; see `write_label_slabs`."""
    header = _header(geometry, provenance)
    shape = header.get_data_shape()
    if np.prod(shape) != np.prod(geometry.stored_shape):
        shape = geometry.stored_shape
        header["intent_code"] = 0  # for example of vectors, whose components were the channels
    dtype, slabs = with_type(slabs)
    if MGH.stem(path) is None:
        image = _empty_image(header, geometry, dtype, shape)
    else:  # has no field for the provenance, and no type uint16
        dtype = dtype if dtype == np.uint8 else np.dtype(np.int32)
        image = nibabel.MGHImage(np.broadcast_to(np.zeros((), dtype), geometry.stored_shape), geometry.affine)
    with atomic_path(path) as temporary, ImageOpener(temporary, mode="wb") as file:
        getattr(image.header, "writehdr_to", image.header.write_to)(file)
        seek_tell(file, image.header.get_data_offset(), write0=True)
        for _, slab in numbered_slabs(path, slabs, geometry):
            for plane in np.moveaxis(geometry.to_stored(slab), 2, 0):
                file.write(plane.astype(image.get_data_dtype(), copy=False).tobytes(order="F"))


def write_nifti_maps(
    path: Path,
    slabs: Iterable[np.ndarray],
    geometry: Geometry,
    names: Sequence[str],
    provenance: Provenance | None = None,
) -> None:
    """Writes maps as float32, in the position of their volume; see `write_map_slabs`.

    A file stores one map after the other, but a slab contains a part of each map. The maps are therefore written to an
    uncompressed file first, which is then compressed.
    """
    header, count = _header(geometry, provenance).as_byteswapped("<"), len(names)
    header["intent_code"] = 0
    shape = geometry.stored_shape if count == 1 else (*geometry.stored_shape, count)
    image = _empty_image(header, geometry, np.float32, shape)
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


def _header(geometry: Geometry, provenance: Provenance | None) -> nibabel.Nifti1Header:
    """Returns a copy of the volume's header, with the provenance as its description."""
    header = geometry.header.copy()
    if provenance is not None:
        header["descrip"] = provenance.note.encode("ascii")
    return header


def _empty_image(
    header: nibabel.Nifti1Header, geometry: Geometry, dtype: npt.DTypeLike, shape: tuple[int, ...]
) -> nibabel.Nifti1Image:
    """Returns an image with a header for its voxels, and without voxels in memory."""
    header.set_data_dtype(dtype)
    header["cal_min"] = header["cal_max"] = 0  # the display window of a CT would hide labels
    image_class = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    image = image_class(np.broadcast_to(np.zeros((), dtype), shape), geometry.label_affine, header)
    image.update_header()
    image.header.set_slope_inter(1, 0)  # an image has none before it is written
    return image
