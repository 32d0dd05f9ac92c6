"""Segmentations that are written slab by slab: the same bytes as nibabel writes, and complete files only."""

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.formats.all_formats import write_label_slabs
from mtf_imaging.data.reading.geometry import read_geometry
from tests.data.oriented import turned

SHAPES = [(9, 8, 7), (9, 8, 1), (1, 5, 6), (1, 1, 4)]


def volume(folder, codes, shape=(9, 8, 7), image_class=nibabel.Nifti1Image, extension=False):
    """Stores a volume whose axes are stored along `codes`; returns its path."""
    image = image_class(*turned(np.zeros(shape, np.int16), codes, np.diag([1.5, 2.0, 3.0, 1.0])))
    image.header["cal_max"] = 300
    if extension:
        image.header.extensions.append(nibabel.nifti1.Nifti1Extension("comment", b"scanned twice"))
    path = folder / "volume-0.nii.gz"
    nibabel.save(image, path)
    return path


def by_nibabel(path, labels, geometry):
    """Writes all labels at once."""
    header = geometry.header.copy()
    header.set_data_dtype(np.uint8)
    header.set_slope_inter(1, 0)
    header["cal_min"] = header["cal_max"] = 0
    image_class = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
    nibabel.save(image_class(geometry.to_stored(labels), geometry.file_affine, header), path)
    return path.read_bytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("extension", [False, True])
@pytest.mark.parametrize("image_class", [nibabel.Nifti1Image, nibabel.Nifti2Image])
def test_the_bytes_are_those_of_nibabel(tmp_path, shape, extension, image_class):
    geometry = read_geometry(volume(tmp_path, "LPS", shape, image_class, extension))
    labels = np.random.default_rng(0).integers(0, 3, shape).astype(np.uint8)
    write_label_slabs(tmp_path / "out.nii.gz", [labels], geometry)
    assert (tmp_path / "out.nii.gz").read_bytes() == by_nibabel(tmp_path / "whole.nii.gz", labels, geometry)
