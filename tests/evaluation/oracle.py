"""A network that reads the labels off the image, and files whose axes are stored in any order."""

import types
from pathlib import Path

import numpy as np

from mtf_imaging.data.images.geometry import MadeGeometry
from mtf_imaging.data.sampling.regions import ALONG_Z
from mtf_imaging.data.sampling.sampling import Sampling
from tests.data.oriented import store_nifti, turned

GRID = Sampling((24, 20, 16))
AFFINE = np.diag([2.0, 2.0, 3.0, 1.0])
HU_OF_LABEL = np.array([-400, 0, 400], np.int16)


def oracle(image):
    """Returns class probabilities `[x, y, z, classes]` of an image with the window (-512, 512)."""
    assert image.dtype == np.float32
    assert image.shape[3:] == (1,)
    return np.exp(-np.abs(image * 1024 - 512 - HU_OF_LABEL) / 100)


def case(seed=0, shape=(24, 20, 16)):
    """Returns the CT and the labels of a cuboid liver with a cuboid lesion."""
    labels = np.zeros(shape, np.uint8)
    x, y, z = (size // 4 for size in shape)
    labels[x : 3 * x, y : 2 * y, z : 3 * z] = 1
    labels[x + 2 + seed : 2 * x + 1, y + 1 : 2 * y - 1, z + 1 : 2 * z] = 2
    return HU_OF_LABEL[labels], labels


def store(folder, number, codes, shape=(24, 20, 16), names=("volume", "segmentation")):
    """Writes a case whose axes are stored along `codes`, and returns the stored labels."""
    for name, array in zip(names, case(number % 3, shape), strict=False):
        store_nifti(folder / f"{name}-{number}.nii.gz", array, codes, AFFINE)
    return turned(array, codes, AFFINE)[0]


def array_source(voxels, geometry=None, path=Path("image")):
    """Returns an array `[x, y, z]` as the source of a channel."""
    place = {"geometry": geometry or MadeGeometry.of(voxels.shape, np.eye(4)), "path": path, "dtype": voxels.dtype}
    nothing = {"check": lambda: None, "close": lambda: None}
    order = {"order": ALONG_Z, "is_stream": False}
    return types.SimpleNamespace(**place, **nothing, **order, read=lambda region: voxels[region].copy())
