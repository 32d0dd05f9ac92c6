"""Fixtures that write small CTs to disk in any orientation."""

import nibabel
import numpy as np
import pytest

from tests.data.oriented import store_nifti


def _store(path, canonical, codes="RAS", spacing=(1.5, 2.0, 3.0), dtype=None):
    """Writes a canonical array to a NIfTI file with the stored orientation `codes`; returns the path."""
    affine = nibabel.affines.from_matvec(np.diag(spacing), (-20.0, 10.0, 30.0))
    return store_nifti(path, canonical, codes, affine, dtype)


def _arrays(seed=0, shape=(7, 6, 5)):
    """Returns random HU and labels `[x, y, z]`; every label occurs."""
    rng = np.random.default_rng(seed)
    return rng.integers(-1000, 1000, shape, dtype=np.int16), rng.integers(0, 3, shape).astype(np.uint8)


@pytest.fixture
def store():
    """A function that writes an array in a stored orientation."""
    return _store


@pytest.fixture
def arrays():
    """A function that makes a volume and labels."""
    return _arrays


@pytest.fixture
def lits_dir(tmp_path):
    """A folder of three LiTS cases, 2, 9 and 10, each with a different stored orientation."""
    folder = tmp_path / "lits"
    for number, codes in ((2, "RAS"), (9, "LPS"), (10, "SAL")):
        hu, labels = _arrays(number, (7, 6, 5 + number % 3))
        _store(folder / f"volume-{number}.nii.gz", hu, codes)
        _store(folder / f"segmentation-{number}.nii", labels, codes)
    return folder
