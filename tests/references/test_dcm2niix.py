"""Series of DICOM files have the voxels and the affine of the NIfTI files that dcm2niix makes of them."""

import subprocess

import dcm2niix
import nibabel
import numpy as np
import pytest

from tests.data.dicom_folder import AXIAL, write_series
from tests.data.reading import read_volume

SHAPE = (7, 6, 5)
# name: (orientation, further elements of the header)
SERIES = {
    "axial": (AXIAL, {}),
    "prone": ((-1, 0, 0, 0, -1, 0), {}),
    "coronal": ((1, 0, 0, 0, 0, -1), {}),
    "sagittal": ((0, 1, 0, 0, 0, -1), {}),
    "slope": (AXIAL, {"RescaleSlope": 0.5, "RescaleIntercept": 10.25}),
}


def _converted(folder, output):
    """Returns the volume of dcm2niix, a NIfTI image."""
    output.mkdir()
    command = [dcm2niix.bin, "-z", "n", "-b", "n", "-f", "volume", "-o", str(output), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = output.glob("*.nii")
    return nibabel.load(path)


@pytest.mark.parametrize("name", SERIES)
def test_a_series_equals_its_nifti_file(tmp_path, name):
    orientation, elements = SERIES[name]
    numbers = np.random.default_rng(0).integers(24, 2000, SHAPE).astype(np.int16)
    folder = write_series(tmp_path / "series", numbers, orientation, **elements)
    expected = nibabel.as_closest_canonical(_converted(folder, tmp_path / "nifti"))
    volume = read_volume(folder)
    canonical = volume.geometry.canonical_affine
    np.testing.assert_allclose(volume.hu, expected.get_fdata(), rtol=0, atol=0.5)  # whole Hounsfield units
    np.testing.assert_allclose(canonical, expected.affine, atol=1e-4)
