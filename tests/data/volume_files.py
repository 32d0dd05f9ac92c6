"""Writes one volume in every format of images."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import nibabel
import numpy as np
import SimpleITK
from PIL import Image

from tests.data.dicom_folder import write_series
from tests.data.oriented import turned
from tests.data.zarr_image import write_image

SHAPE = (7, 6, 5)
AFFINE = nibabel.affines.from_matvec(np.diag([1.5, 2.0, 3.0]), (-20.0, 10.0, 30.0))
CODES = ("RAS", "LPS", "SAL", "PIR")  # right-handed axes, as those of a DICOM series
DIRECTIONS = {
    "R": "left-to-right",
    "L": "right-to-left",
    "A": "posterior-to-anterior",
    "P": "anterior-to-posterior",
    "S": "inferior-to-superior",
    "I": "superior-to-inferior",
}


class VolumeFormat(NamedTuple):
    """How a volume is stored in a format.

    Attributes:
      name: the name of the file or folder.
      save: writes stored numbers `[i, j, k]` with their affine and the directions of their axes.
      voxels: a pattern of the files with the voxels; "" if it is the file itself.
      codes: the directions of axes that the format has.
      shape: the shape of the volume in canonical axes.
      affine: the affine of canonical axes.
    """

    name: str
    save: Callable
    voxels: str = ""
    codes: tuple[str, ...] = CODES
    shape: tuple[int, int, int] = SHAPE
    affine: np.ndarray = AFFINE

    def write(self, folder: Path, canonical: np.ndarray, codes: str | None = None) -> Path:
        """Writes a volume `[x, y, z]` whose axes are stored along `codes`; returns its path."""
        codes = codes or self.codes[-1]
        path = folder / self.name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.save(path, *turned(canonical, codes, self.affine), codes)
        return path

    def voxel_file(self, path: Path) -> Path:
        """Returns a file with voxels of a volume that `write` wrote."""
        return min((path if path.is_dir() else path.parent).glob(self.voxels)) if self.voxels else path


def _nifti(path, stored, affine, codes):
    del codes  # of the affine
    nibabel.save(nibabel.Nifti1Image(stored, affine), path)


def _freesurfer(path, stored, affine, codes):
    del codes
    nibabel.save(nibabel.MGHImage(stored, affine), path)


def _lps(affine):
    """Returns the origin, the voxel sizes and the directions `[3, axis]` of an affine, in LPS."""
    lps = np.diag([-1, -1, 1, 1]) @ affine
    spacing = np.linalg.norm(lps[:3, :3], axis=0)
    return lps[:3, 3], spacing, lps[:3, :3] / spacing


def itk_image(stored, affine):
    """Returns stored numbers as an image of SimpleITK."""
    image = SimpleITK.GetImageFromArray(np.ascontiguousarray(stored.transpose()))
    origin, spacing, directions = _lps(affine)
    image.SetOrigin(origin.tolist())
    image.SetSpacing(spacing.tolist())
    image.SetDirection(directions.ravel().tolist())
    return image


def _itk(path, stored, affine, codes):
    del codes
    SimpleITK.WriteImage(itk_image(stored, affine), str(path))


def _series(path, stored, affine, codes):
    del codes
    origin, (columns, rows, step), directions = _lps(affine)
    more = {"PixelSpacing": [float(rows), float(columns)], "FrameOfReferenceUID": "1.2.826.0.1.3680043.8.498.7"}
    write_series(path, stored + np.int16(1024), directions[:, :2].T.ravel().tolist(), origin, float(step), **more)


def _zarr(path, stored, affine, codes):
    scale = np.linalg.norm(affine[:3, :3], axis=0)
    translation = (affine[:3, :3] / scale).T @ affine[:3, 3]
    directions = dict(zip("xyz", map(DIRECTIONS.get, codes)))
    write_image(path, stored, directions=directions, scale=tuple(scale), translation=tuple(translation))


def _picture(path, stored, affine, codes):
    del affine, codes  # those of all pictures
    Image.fromarray(stored[..., 0].T.astype(np.uint8)).save(path)


_PICTURE = {"codes": ("RPS",), "shape": (7, 6, 1), "affine": nibabel.affines.from_matvec(np.eye(3), (0, -5, 0))}
VOLUMES = {
    volume.name.removeprefix("volume-3"): volume
    for volume in (
        VolumeFormat("volume-3.nii", _nifti),
        VolumeFormat("volume-3.nii.gz", _nifti),
        VolumeFormat("volume-3.mgz", _freesurfer),
        VolumeFormat("volume-3.nrrd", _itk),
        VolumeFormat("volume-3.nhdr", _itk, "*.raw*"),
        VolumeFormat("volume-3.mha", _itk),
        VolumeFormat("volume-3.mhd", _itk, "*.raw"),
        VolumeFormat("volume-3/series", _series, "*.dcm"),
        VolumeFormat("volume-3.ome.zarr", _zarr, "full/c/*/*/*"),
        VolumeFormat("volume-3.png", _picture, **_PICTURE),
        VolumeFormat("volume-3.tif", _picture, **_PICTURE),
    )
}
SERIES = "/series"
