"""The positions of the frames of a DICOM-SEG file, and their places in the voxel grid of a volume.

DICOM-SEG files omit planes without labels, so a file rarely has the planes of its volume.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.made_geometry import MadeGeometry, made_fields
from mtf_imaging.errors import DataError

_LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
_SAME_VOXEL = 0.25  # the largest distance of a pixel from its voxel, in voxels
_FIX = "Fix: give a segmentation on the voxel grid of the volume."


@dataclasses.dataclass(frozen=True)
class Frame:
    """One frame of a DICOM-SEG file.

    Attributes:
      segment: the number of its segment; None if its pixels are segment numbers.
      size: number of pixels (columns, rows).
      affine: `[4, 4]` float64, pixel (column, row, 0) -> mm in RAS+. The third column is the unit normal.
    """

    segment: int | None
    size: tuple[int, int]
    affine: np.ndarray


@dataclasses.dataclass(frozen=True)
class FramePlace:
    """The place of a frame in a stored array `[i, j, k]`.

    Attributes:
      region: the region of the array, which has one plane along one axis.
      rows_first: whether the rows of the frame lie along an earlier axis than its columns.
      flips: for each axis of the region in the plane, in order, whether it is reversed.
    """

    region: tuple[slice | int, ...]
    rows_first: bool
    flips: tuple[slice, slice]

    def oriented(self, pixels: np.ndarray) -> np.ndarray:
        """Returns a view of the pixels `[rows, columns]` with the axes of the region."""
        return (pixels if self.rows_first else pixels.T)[self.flips]


def read_frames(header: Any) -> list[Frame]:
    """Reads the positions of all frames from the functional groups (DICOM PS3.3, C.7.6.16).

    Args:
      header: the header of a DICOM-SEG file, a pydicom data set.

    Raises:
      KeyError, AttributeError, IndexError, ValueError, TypeError: the header lacks the position of a frame.
    """
    (shared,) = header.SharedFunctionalGroupsSequence
    size, frames = (int(header.Columns), int(header.Rows)), []
    for own in header.PerFrameFunctionalGroupsSequence:

        def group(name: str, own: Any = own) -> Any:
            return getattr(own if name in own else shared, name)[0]

        along_row, along_column = np.reshape(group("PlaneOrientationSequence").ImageOrientationPatient, (2, 3))
        between_rows, between_columns = map(float, group("PixelMeasuresSequence").PixelSpacing)
        affine = np.eye(4)
        affine[:3, 0] = np.asarray(along_row, np.float64) * between_columns
        affine[:3, 1] = np.asarray(along_column, np.float64) * between_rows
        affine[:3, 2] = np.cross(np.asarray(along_row, np.float64), np.asarray(along_column, np.float64))
        affine[:3, 3] = group("PlanePositionSequence").ImagePositionPatient
        is_map = header.SegmentationType == "LABELMAP"
        segment = None if is_map else int(group("SegmentIdentificationSequence").ReferencedSegmentNumber)
        frames.append(Frame(segment, size, _LPS_TO_RAS @ affine))
    return frames


def place_frame(path: Path, frame: Frame, geometry: Geometry) -> FramePlace:
    """Returns the place of a frame in the voxel grid of a volume.

    Args:
      path: the file, for messages.
      frame: the frame.
      geometry: the geometry of the volume.

    Raises:
      DataError: the pixels of the frame are not voxels of the volume.
    """
    matrix = np.linalg.inv(geometry.affine) @ frame.affine
    steps, start = np.rint(matrix[:3, :2]), np.rint(matrix[:3, 3])
    corners = np.array([(c, r, 1) for c in (0, frame.size[0] - 1) for r in (0, frame.size[1] - 1)]).T
    miss = np.abs(matrix[:3, [0, 1, 3]] @ corners - np.column_stack([steps, start]) @ corners).max()
    if miss > _SAME_VOXEL or (np.abs(steps).sum(axis=0) != 1).any() or (np.abs(steps).sum(axis=1) > 1).any():
        position = ", ".join(f"{mm:g}" for mm in np.round(frame.affine[:3, 3], 3))
        raise DataError(
            f"{path}: the frame at {position} mm (RAS+) does not lie on the voxel grid of the volume, which has shape "
            f"{geometry.stored_shape} and voxels of {_size(geometry)} mm. {_FIX}"
        )
    axes, region = [int(np.flatnonzero(steps[:, axis])[0]) for axis in (0, 1)], [int(index) for index in start]
    place: list[slice | int] = [*region]
    flips = {}
    for number, axis in enumerate(axes):
        first, count, is_reversed = region[axis], frame.size[number], steps[axis, number] < 0
        low = first - count + 1 if is_reversed else first
        place[axis], flips[axis] = slice(low, low + count), slice(None, None, -1 if is_reversed else 1)
    for axis, at in enumerate(place):
        low, high = (at.start, at.stop) if isinstance(at, slice) else (at, at + 1)
        if low < 0 or high > geometry.stored_shape[axis]:
            raise DataError(
                f"{path}: a frame has the voxels {low} to {high - 1} along axis {axis + 1}, but the volume has "
                f"{geometry.stored_shape[axis]} voxels along it. {_FIX}"
            )
    first, second = sorted(axes)
    return FramePlace(tuple(place), axes[1] < axes[0], (flips[first], flips[second]))


def frames_geometry(paths: Sequence[Path], headers: Sequence[Any], frames: Sequence[Sequence[Frame]]) -> MadeGeometry:
    """Returns the smallest voxel grid that contains the frames of one or more DICOM-SEG files of a volume.

    Args:
      paths: the files.
      headers: the header of each file.
      frames: the frames of each file.

    Raises:
      DataError: the first file does not state the distance between planes.
    """
    first = frames[0][0]
    measures = headers[0].SharedFunctionalGroupsSequence[0].get("PixelMeasuresSequence")
    distance = measures[0].get("SpacingBetweenSlices") if measures else None
    if not distance:
        raise DataError(
            f"{paths[0]}: its header lacks SpacingBetweenSlices, so the distance between its planes is unknown. "
            "Fix: name the folder of the images, which state it.",
            ["volume_dir"],
        )
    normal = first.affine[:3, 2]
    heights = [float(normal @ (frame.affine[:3, 3] - first.affine[:3, 3])) for file in frames for frame in file]
    affine = first.affine.copy()
    affine[:3, 2] *= float(distance)
    affine[:3, 3] += normal * min(heights)
    planes = round((max(heights) - min(heights)) / float(distance)) + 1
    return MadeGeometry(**made_fields((*first.size, planes), affine))


def _size(geometry: Geometry) -> str:
    return " x ".join(f"{mm:.4g}" for mm in geometry.stored_spacing)
