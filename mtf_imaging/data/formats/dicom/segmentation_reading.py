"""Reads DICOM-SEG files as labels in the voxel grid of a volume.

DICOM-SEG files omit planes without labels, so a file rarely has the planes of its volume.
"""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.dicom.files import check_pixels, flat_frames, read_dicom
from mtf_imaging.data.formats.dicom.segment_labels import labels_of_segments
from mtf_imaging.data.formats.packages import import_pydicom
from mtf_imaging.data.images.geometry import Geometry, MadeGeometry
from mtf_imaging.data.images.stored import Stored, WholePlanes
from mtf_imaging.files.reading import Fault, damage_named

PARAMETER = "provenance"  # the name of the only algorithm parameter
_KIND = "DICOM-SEG"
_CLASSES = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")  # segmentations, label maps
_TYPES = ("BINARY", "LABELMAP")
_LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
_SAME_VOXEL = 0.25  # the largest distance of a pixel from its voxel, in voxels


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


def open_segmentation_in(path: Path, geometry: Geometry, description: Description) -> Stored:
    """Reads the header of a DICOM-SEG file whose frames lie on the voxel grid of a volume.

    Args:
      path: the .dcm file.
      geometry: the geometry of the volume.
      description: the labels; see `labels_of_segments`.

    Returns:
      The labels, uint8; voxels outside the frames are background. The first read reads all frames.

    Raises:
      DataError: pydicom is missing; the file is damaged, fractional or no DICOM-SEG; a segment has no label; or a frame
        does not lie on the voxel grid.
    """
    header, frames = _read_header(path)
    with damage_named(path, _KIND):
        labels = labels_of_segments(header, description)
        if lost := sorted({frame.segment for frame in frames if frame.segment is not None} - labels.keys()):
            raise Fault(f"frames refer to segment {lost[0]}, which the header lacks")
        places = [_place(frame, geometry) for frame in frames]
    shape = geometry.stored_shape
    read = functools.partial(_read_labels, path, shape, list(zip(frames, places, strict=True)), labels)
    return Stored(path, shape, np.dtype(np.uint8), lambda: WholePlanes(read))


def segmentation_geometry(paths: Sequence[Path]) -> MadeGeometry:
    """Returns the smallest voxel grid that contains the frames of DICOM-SEG files of one volume that is missing.

    Raises:
      DataError: a file cannot be used, or the first one does not state the distance between planes.
    """
    headers, frames = zip(*map(_read_header, paths), strict=True)
    first = frames[0][0]
    with damage_named(paths[0], _KIND):
        distance = next(flat_frames(headers[0])).get("SpacingBetweenSlices")
        if not distance:
            what = "its header lacks SpacingBetweenSlices, so the distance between its planes is unknown"
            raise Fault(what, "name the folder of the images, which state it", ["volume_dir"])
        normal = first.affine[:3, 2]
        heights = [float(normal @ (frame.affine[:3, 3] - first.affine[:3, 3])) for file in frames for frame in file]
        affine = first.affine.copy()
        affine[:3, 2] *= float(distance)
        affine[:3, 3] += normal * min(heights)
        planes = round((max(heights) - min(heights)) / float(distance)) + 1
    return MadeGeometry.of((*first.size, planes), affine)


def algorithm_parameters(path: Path) -> str:
    """Returns the provenance in the first segment of a DICOM-SEG file, as text; "" if another program wrote it.

    Raises:
      DataError: pydicom is missing, or the file is damaged.
    """
    with damage_named(path, _KIND):
        header = read_dicom(path, stop_before_pixels=True, specific_tags=["SegmentSequence"])
        segments = header.get("SegmentSequence") or [{}]
        algorithms = segments[0].get("SegmentationAlgorithmIdentificationSequence") or [{}]
        text = str(algorithms[0].get("AlgorithmParameters") or "")
    return text.removeprefix(f"{PARAMETER}=") if text.startswith(f"{PARAMETER}=") else ""


def _read_header(path: Path) -> tuple[Any, list[Frame]]:
    with damage_named(path, _KIND):
        header = read_dicom(path, stop_before_pixels=True)
        what, kind = header.get("SOPClassUID"), header.get("SegmentationType")
        if what not in _CLASSES or "TotalPixelMatrixRows" in header:
            shown = what.name if what else "of no stated kind"
            what = f"this DICOM file is {shown}, not a segmentation (DICOM-SEG) of volumes"
            raise Fault(what, "move it to another folder")
        if kind not in _TYPES:
            what = f"its SegmentationType is {kind}, but only {' and '.join(_TYPES)} state one label per voxel"
            raise Fault(what, "export it as a binary segmentation")
        frames = _read_frames(header)
        if not frames or len(frames) != int(header.NumberOfFrames):
            raise Fault(f"its header states {header.NumberOfFrames} frames, but {len(frames)} positions")
        check_pixels(path, header, len(frames))
        return header, frames


def _read_frames(header: object) -> list[Frame]:
    """Reads the positions of all frames."""
    size, frames = (int(header.Columns), int(header.Rows)), []
    for own in flat_frames(header):
        along_row, along_column = np.reshape(own.ImageOrientationPatient, (2, 3))
        between_rows, between_columns = map(float, own.PixelSpacing)
        affine = np.eye(4)
        affine[:3, 0] = np.asarray(along_row, np.float64) * between_columns
        affine[:3, 1] = np.asarray(along_column, np.float64) * between_rows
        affine[:3, 2] = np.cross(np.asarray(along_row, np.float64), np.asarray(along_column, np.float64))
        affine[:3, 3] = own.ImagePositionPatient
        is_map = header.SegmentationType == "LABELMAP"
        segment = None if is_map else int(own.ReferencedSegmentNumber)
        frames.append(Frame(segment, size, _LPS_TO_RAS @ affine))
    return frames


def _place(frame: Frame, geometry: Geometry) -> FramePlace:
    """Returns the place of a frame in the voxel grid of a volume.

    Raises:
      Fault: the pixels of the frame are not voxels of the volume.
    """
    matrix = np.linalg.inv(geometry.affine) @ frame.affine
    steps, start = np.rint(matrix[:3, :2]), np.rint(matrix[:3, 3])
    corners = np.array([(c, r, 1) for c in (0, frame.size[0] - 1) for r in (0, frame.size[1] - 1)]).T
    nearest = np.column_stack([steps, start]) @ corners
    is_off = np.abs(matrix[:3, [0, 1, 3]] @ corners - nearest).max() > _SAME_VOXEL
    is_oblique = (np.abs(steps).sum(axis=0) != 1).any() or (np.abs(steps).sum(axis=1) > 1).any()
    is_inside = (nearest >= 0).all() and (geometry.stored_shape > nearest.T).all()
    if is_off or is_oblique or not is_inside:
        position = ", ".join(f"{mm:g}" for mm in np.round(frame.affine[:3, 3], 3))
        size = " x ".join(f"{mm:.4g}" for mm in geometry.stored_spacing)
        what = f"the frame at {position} mm (RAS+) does not lie on the voxel grid of the volume"
        grid = f"shape {geometry.stored_shape} and voxels of {size} mm"
        raise Fault(f"{what}, which has {grid}", "give a segmentation on the voxel grid of the volume")
    axes = [int(np.flatnonzero(steps[:, number])[0]) for number in (0, 1)]
    place: list[slice | int] = [int(index) for index in start]
    flips = {}
    for number, axis in enumerate(axes):
        low, high = int(nearest[axis].min()), int(nearest[axis].max())
        place[axis], flips[axis] = slice(low, high + 1), slice(None, None, int(steps[axis, number]))
    first, second = sorted(axes)
    return FramePlace(tuple(place), axes[1] < axes[0], (flips[first], flips[second]))


def _read_labels(
    path: Path, shape: tuple[int, int, int], frames: Sequence[tuple[Frame, FramePlace]], labels: dict[int, int]
) -> np.ndarray:
    """Returns the labels of all voxels, `[i, j, k]`.

    Args:
      path: the file.
      shape: the stored shape of the volume.
      frames: the frames and their places.
      labels: {segment number: label}.
    """
    whole = np.zeros(shape, np.uint8, order="F")
    values = np.zeros(max(labels, default=0) + 1, np.uint8)  # of label maps, by segment number
    values[list(labels)] = list(labels.values())
    with damage_named(path, _KIND):
        for (frame, place), pixels in zip(frames, _pixels(path, frames[0][0].size), strict=True):
            if frame.segment is not None:
                found = place.oriented(pixels.astype(bool) * np.uint8(labels[frame.segment]))
            elif unknown := set(np.unique(pixels).tolist()) - {0, *labels}:
                raise Fault(f"voxels have the segment number {min(unknown)}, which the header lacks")
            else:
                found = place.oriented(values[pixels])
            view = whole[place.region]
            clash = (view != 0) & (found != 0) & (view != found)
            if clash.any():
                what = f"segments of the labels {view[clash][0]} and {found[clash][0]} overlap"
                raise Fault(what, "export them without overlaps, for instance as a label map")
            np.maximum(view, found, out=view)
    return whole


def _pixels(path: Path, size: tuple[int, int]) -> Iterable[np.ndarray]:
    """Returns the pixels of each frame, `[rows, columns]`.

    Raises:
      Fault: the file is truncated; pydicom 3.0 reads missing bits as 0.
    """
    pydicom, (columns, rows) = import_pydicom(path), size
    file = pydicom.dcmread(path)
    needed = -(-int(file.NumberOfFrames) * rows * columns * int(file.BitsAllocated) // 8)
    if not file.file_meta.TransferSyntaxUID.is_encapsulated and len(file.PixelData) < needed:
        raise Fault(f"has {len(file.PixelData)} bytes of pixels, but its header declares {needed}. It is truncated")
    if columns * rows % 8:  # pydicom 3.0 cannot iterate over frames of single bits that do not fill their last byte
        return pydicom.pixels.pixel_array(file, raw=True).reshape(-1, rows, columns)
    return pydicom.pixels.iter_pixels(file, raw=True)
