"""Tests that ITK (used by 3D Slicer and ITK-SNAP) places a prediction exactly on its CT."""

import nibabel
import numpy as np
import pytest
import SimpleITK
from scipy.spatial.transform import Rotation

from mtf_imaging.data.sampling.sampling import Sampling
from tests.data.oriented import turned
from tests.kinds.volumes import predict_cases

SHAPE = (9, 8, 7)
HU_OF_LABEL = np.array([-400, 0, 400], np.int16)
MARK = (6, 2, 5)  # the only voxel of label 2, in canonical axes
RAS = nibabel.affines.from_matvec(np.diag([0.75, 0.8, 2.5]), (-120.0, 33.0, 410.5))
OBLIQUE = nibabel.affines.from_matvec(Rotation.from_euler("xyz", (12, -17, 25), degrees=True).as_matrix()) @ RAS


def oracle(image):
    """Returns class probabilities for an image with window (-512, 512)."""
    return np.exp(-np.abs(image * 1024 - 512 - HU_OF_LABEL) / 100)


# name: (stored axes, affine in RAS, sform code, qform code, affine of the qform or None if it is the same)
HEADERS = {
    "RAS": ("RAS", RAS, 1, 1, None),
    "LPS": ("LPS", RAS, 1, 1, None),
    "flipped": ("LAS", RAS, 1, 1, None),
    "flipped along z": ("RAI", RAS, 1, 1, None),
    "other axes": ("SAL", RAS, 1, 1, None),
    "oblique": ("LPS", OBLIQUE, 2, 2, None),
    "sform only": ("LAS", OBLIQUE, 1, 0, None),
    "qform only": ("LAS", OBLIQUE, 0, 1, None),
    "sform is not qform": ("RAS", OBLIQUE, 2, 1, RAS),
    "qform of the scanner, sform of an atlas": ("LPS", RAS, 4, 1, OBLIQUE),
}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("suffix", ["nii", "nii.gz"])
def test_itk_puts_a_prediction_where_it_puts_its_volume(tmp_path, name, suffix):
    codes, affine, sform_code, qform_code, other = HEADERS[name]
    labels = np.zeros(SHAPE, np.uint8)
    labels[3:8, 1:6, 2:6] = 1
    labels[MARK] = 2
    stored, stored_affine = turned(HU_OF_LABEL[labels], codes, affine)
    qform = stored_affine if other is None else turned(labels, codes, other)[1]
    image = nibabel.Nifti1Image(stored, stored_affine)
    image.set_sform(stored_affine, sform_code, update_affine=False)
    image.set_qform(qform, qform_code, update_affine=False)
    path = tmp_path / f"volume-0.{suffix}"
    nibabel.save(image, path)
    (written,) = predict_cases(path, tmp_path / f"out.{suffix}", Sampling(SHAPE), oracle, progress=False)

    volume, prediction = (SimpleITK.ReadImage(str(file)) for file in (path, written))
    assert prediction.GetSize() == volume.GetSize()
    assert prediction.GetOrigin() == volume.GetOrigin()
    assert prediction.GetSpacing() == volume.GetSpacing()
    assert prediction.GetDirection() == volume.GetDirection()
    assert prediction.GetPixelID() == SimpleITK.sitkUInt8
    marks = []
    for file, value in ((volume, 400), (prediction, 2)):
        (index,) = (index for index in np.ndindex(*file.GetSize()) if file[index] == value)
        marks.append(file.TransformIndexToPhysicalPoint(index))
    assert marks[0] == marks[1]
    if other is None:  # with a single affine, ITK uses that affine, in LPS
        expected = nibabel.affines.apply_affine(affine, MARK) * (-1, -1, 1)
        np.testing.assert_allclose(marks[1], expected, atol=1e-3)
