"""Converts between the stored array of a file and the canonical array.

Canonical arrays are `[x, y, z]` with x increasing to the patient's right, y to the front and z to the head (RAS+, as in
nibabel). The conversion only swaps and flips axes. It does not interpolate, so it can be undone exactly.
"""

import itertools
from dataclasses import dataclass, replace
from typing import Self

import nibabel
import numpy as np
from nibabel import orientations

from mtf_imaging.data.sampling.grid import Region
from mtf_imaging.data.sampling.regions import PlaneOrder
from mtf_imaging.files.reading import Fault

_RAS = np.array([[0, 1], [1, 1], [2, 1]])
_UNIT_BITS = 7  # in the field xyzt_units; the other bits encode the time unit
# {NIfTI unit code: length in mm}. Unknown units are mm in practice.
_UNITS_MM = {0: 1.0, 1: 1000.0, 2: 1.0, 3: 1e-3}
_SCANNER = 1  # the code of an affine in scanner coordinates
# In degrees. Rounding an affine to four digits stays below it, and over 300 mm it amounts to 0.5 mm, less than a
# voxel in most scans.
_TOLERANCE = 0.1


@dataclass(frozen=True)
class Geometry:
    """Geometry of one NIfTI file.

    Attributes:
      header: the file's header, kept for its other fields (units, codes, description). Its lengths are in the file's
        unit.
      affine: `[4, 4]` float64, stored voxel index -> mm in RAS+. It is the header's affine, unless that affine is
        unusable.
    """

    header: nibabel.Nifti1Header
    affine: np.ndarray

    @property
    def file_affine(self) -> np.ndarray:
        """`[4, 4]` float64, the uncorrected affine of the file, in mm."""
        return affine_in_mm(self.header)

    @property
    def label_affine(self) -> np.ndarray:
        """`[4, 4]` float64, the affine of a segmentation that is written as NIfTI, in the file's unit.

        The unit is the same as in the volume, so that programs that ignore units show both in the same place.
        """
        return np.asarray(self.header.get_best_affine(), np.float64)

    @property
    def stored_shape(self) -> tuple[int, int, int]:
        """Number of voxels along each stored axis, without trailing axes of size 1."""
        return tuple(int(n) for n in self.header.get_data_shape()[:3])

    @property
    def axis_codes(self) -> str:
        """Direction of each stored axis, for example `LPS`; `RAS` is canonical."""
        return "".join(nibabel.aff2axcodes(self.affine))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of voxels along the canonical x, y and z."""
        shape = [0, 0, 0]
        for size, (axis, _) in zip(self.stored_shape, self._orientation(), strict=True):
            shape[int(axis)] = size
        return tuple(shape)

    @property
    def canonical_affine(self) -> np.ndarray:
        """`[4, 4]` float64, canonical voxel index -> mm in RAS+."""
        return self.affine @ orientations.inv_ornt_aff(self._orientation(), self.stored_shape)

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Voxel size in mm along the canonical x, y and z."""
        return tuple(float(s) for s in nibabel.affines.voxel_sizes(self.canonical_affine))

    @property
    def stored_spacing(self) -> tuple[float, float, float]:
        """Voxel size in mm along each stored axis."""
        return tuple(float(s) for s in nibabel.affines.voxel_sizes(self.affine))

    @property
    def header_spacing(self) -> tuple[float, float, float]:
        """Voxel size in mm along each stored axis, uncorrected from the header."""
        unit = unit_mm(self.header) or 1.0
        return tuple(float(size) * unit for size in self.header.get_zooms()[:3])

    def to_canonical(self, stored: np.ndarray) -> np.ndarray:
        """Returns a view of a stored array `[i, j, k]` as `[x, y, z]`."""
        return orientations.apply_orientation(stored, self._orientation())

    def to_stored(self, canonical: np.ndarray) -> np.ndarray:
        """Returns a view of a canonical array `[x, y, z]` as `[i, j, k]`; the inverse of `to_canonical`."""
        return orientations.apply_orientation(canonical, orientations.ornt_transform(_RAS, self._orientation()))

    def stored_region(self, region: Region) -> Region:
        """Returns the region of the stored array that contains a region of the canonical array."""
        stored = []
        for size, (axis, direction) in zip(self.stored_shape, self._orientation(), strict=True):
            at = region[int(axis)]
            stored.append(at if direction > 0 else slice(size - at.stop, size - at.start))
        return tuple(stored)

    def canonical_region(self, stored: Region) -> Region:
        """Converts a region along i, j, k to a region along x, y, z; every slice has a start and a stop."""
        region = [slice(0)] * 3
        for at, length, (axis, direction) in zip(stored, self.stored_shape, self._orientation(), strict=True):
            region[int(axis)] = at if direction > 0 else slice(length - at.stop, length - at.start)
        return tuple(region)

    def cropped(self, region: Region) -> Self:
        """Returns the geometry of a region along x, y, z, without its place in the patient."""
        header = self.header.copy()
        header.set_data_shape([at.stop - at.start for at in self.stored_region(region)])
        return replace(self, header=header)

    @property
    def plane_order(self) -> PlaneOrder:
        """The order of the planes along the last stored axis, which varies slowest in a file."""
        axis, direction = self._orientation()[2]
        return PlaneOrder(int(axis), bool(direction > 0))

    def _orientation(self) -> np.ndarray:
        """Returns `[3, 2]`: for each stored axis, the nearest canonical axis and its direction, +1 or -1."""
        return orientations.io_orientation(self.affine)


@dataclass(frozen=True)
class MadeGeometry(Geometry):
    """Geometry of an image in a format other than NIfTI, with a header created for its segmentation.

    Attributes:
      doubt: the reason that the axis directions are uncertain; None if the file states them.
      has_size: whether the file states the voxel size.
    """

    doubt: str | None = None
    has_size: bool = True

    @classmethod
    def of(cls, shape: tuple[int, ...], affine: np.ndarray, **fields: object) -> Self:
        """Returns the geometry of an image.

        Args:
          shape: number of voxels along each stored axis.
          affine: `[4, 4]`, stored voxel index -> mm in RAS+.
          **fields: the other attributes of the class.

        Raises:
          Fault: an axis has no voxels, or the affine does not define the axes.
        """
        if min(shape) < 1:
            raise Fault(f"its shape {tuple(shape)} has an axis without voxels")
        check_axes(affine)
        header = nibabel.Nifti1Header()
        header.set_data_shape(shape)
        header.set_xyzt_units("mm")
        header.set_qform(affine, _SCANNER)
        header.set_sform(affine, _SCANNER)
        return cls(header=header, affine=np.asarray(affine, np.float64), **fields)

    @property
    def label_affine(self) -> np.ndarray:
        return self.affine


def check_axes(affine: np.ndarray) -> None:
    """Raises Fault if an affine `[4, 4]` is not finite, or its three axes are linearly dependent."""
    is_finite = np.isfinite(affine).all()
    lengths = np.linalg.norm(affine[:3, :3], axis=0) if is_finite else np.zeros(3)
    is_flat = min(lengths) == 0 or abs(np.linalg.det(affine[:3, :3] / lengths)) < 1e-9
    if is_flat or np.isnan(orientations.io_orientation(affine)).any():  # nibabel's threshold is relative
        raise Fault(f"the affine {affine[:3].tolist()} does not define the axes", "repair the header")


def check_orthogonal(affine: np.ndarray) -> None:
    """Checks that the axes of an affine are perpendicular, unlike in scans with a tilted gantry.

    All later steps (resampling, distances and volumes) assume that voxels are boxes, unlike in a sheared grid.

    Args:
      affine: `[4, 4]`, stored voxel index -> mm. No column is 0.

    Raises:
      Fault: the angle between two axes differs from 90 degrees by more than 0.1 degrees.
    """
    axes = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    pairs = list(itertools.combinations(range(3), 2))
    angles = np.degrees([np.arcsin(np.clip(axes[:, i] @ axes[:, j], -1, 1)) for i, j in pairs])
    worst = int(np.abs(angles).argmax())
    if abs(angles[worst]) > _TOLERANCE:
        first, second = ("ijk"[number] for number in pairs[worst])
        degrees = f"{90 - angles[worst]:.2f} degrees instead of 90"
        angle = f"the angle between the voxel axes {first} and {second} is {degrees}"
        tilt = f"for instance because the gantry was tilted by {abs(angles[worst]):.2f} degrees"
        fix = "resample the image and its mask to a grid with perpendicular axes, for example with dcm2niix"
        other = "If the sform of a NIfTI file is wrong and its qform is right, set sform_code to 0"
        raise Fault(f"its affine is sheared: {angle}, {tilt}", f"{fix}. {other}")


def unit_mm(header: nibabel.Nifti1Header) -> float | None:
    """Returns the length unit of a NIfTI header in mm, or None if its code is not defined."""
    return _UNITS_MM.get(int(header["xyzt_units"]) & _UNIT_BITS)


def affine_in_mm(header: nibabel.Nifti1Header) -> np.ndarray:
    """Returns the affine of a NIfTI header, `[4, 4]` float64, from the stored voxel index to mm in RAS+."""
    affine = np.array(header.get_best_affine(), np.float64)
    affine[:3] *= unit_mm(header) or 1.0
    return affine
