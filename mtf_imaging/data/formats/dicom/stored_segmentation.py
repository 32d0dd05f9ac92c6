"""Reads DICOM-SEG files as labels in the voxel grid of a volume."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.formats.dicom.library import import_pydicom
from mtf_imaging.data.formats.dicom.segment_frames import Frame, FramePlace, frames_geometry, place_frame, read_frames
from mtf_imaging.data.formats.dicom.segment_labels import labels_of_segments
from mtf_imaging.data.formats.dicom.segmentation import PARAMETER
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.made_geometry import MadeGeometry
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import reading_named

_CLASSES = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")  # segmentations, label maps
_TYPES = ("BINARY", "LABELMAP")


@dataclasses.dataclass(frozen=True)
class StoredSegmentation(Stored):
    """The labels of a DICOM-SEG file, in the stored axes of a volume; voxels outside the frames are background.

    Attributes:
      path: the file.
      volume_shape: number of voxels of the volume along each stored axis.
      frames: the frames.
      places: the place of each frame in the volume.
      labels: {segment number: label}.
      names: {segment number: name}, for messages.
    """

    path: Path
    volume_shape: tuple[int, int, int]
    frames: tuple[Frame, ...]
    places: tuple[FramePlace, ...]
    labels: dict[int, int]
    names: dict[int, str]

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.volume_shape

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.uint8)

    def open(self) -> "SegmentationPlanes":
        return SegmentationPlanes(self)


class SegmentationPlanes:
    """Reads planes of the labels; see `Planes`. The first call reads all frames."""

    def __init__(self, stored: StoredSegmentation) -> None:
        self._stored = stored
        self._whole: np.ndarray | None = None

    def read(self, planes: slice) -> np.ndarray:
        """Returns the labels `[i, j, planes]` of a range of planes.

        Raises:
          DataError: the file is damaged, or segments with different labels overlap.
        """
        if self._whole is None:
            self._whole = _read_labels(self._stored)
        return self._whole[..., planes]

    def check_end(self) -> None:
        """Does nothing, because every frame is checked when it is read."""

    def close(self) -> None:
        """Frees the labels."""
        self._whole = None


def open_segmentation_in(path: Path, geometry: Geometry, description: Description) -> StoredSegmentation:
    """Reads the header of a DICOM-SEG file whose frames lie on the voxel grid of a volume.

    Args:
      path: the .dcm file.
      geometry: the geometry of the volume.
      description: the labels; see `labels_of_segments`.

    Raises:
      DataError: pydicom is missing; the file is damaged, fractional or no DICOM-SEG; a segment has no label; or a frame
        does not lie on the voxel grid.
    """
    header, frames = _read_header(path)
    with _damage_named(path):
        labels = labels_of_segments(path, header, description)
        names = {int(one.SegmentNumber): str(one.get("SegmentLabel") or "") for one in header.SegmentSequence}
    lost = sorted({frame.segment for frame in frames if frame.segment is not None} - labels.keys())
    if lost:
        raise DataError(
            f"{path}: frames refer to segment {lost[0]}, which the header lacks. Fix: fetch the file again."
        )
    places = tuple(place_frame(path, frame, geometry) for frame in frames)
    return StoredSegmentation(path, geometry.stored_shape, tuple(frames), places, labels, names)


def segmentation_geometry(paths: Sequence[Path]) -> MadeGeometry:
    """Returns the voxel grid that contains the frames of DICOM-SEG files of one volume, if the volume is missing.

    Raises:
      DataError: a file cannot be used, or it does not state the distance between planes.
    """
    headers, frames = zip(*map(_read_header, paths), strict=True)
    return frames_geometry(paths, headers, frames)


def algorithm_parameters(path: Path) -> str:
    """Returns the provenance in the first segment of a DICOM-SEG file, as text; "" if another program wrote it.

    Raises:
      DataError: pydicom is missing, or the file is damaged.
    """
    pydicom = import_pydicom(path)
    with _damage_named(path):
        header = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=["SegmentSequence"])
        segments = header.get("SegmentSequence") or [{}]
        algorithms = segments[0].get("SegmentationAlgorithmIdentificationSequence") or [{}]
        text = str(algorithms[0].get("AlgorithmParameters") or "")
    return text.removeprefix(f"{PARAMETER}=") if text.startswith(f"{PARAMETER}=") else ""


def _read_header(path: Path) -> tuple[Any, list[Frame]]:
    pydicom = import_pydicom(path)
    with _damage_named(path):
        header = pydicom.dcmread(path, stop_before_pixels=True)
        what = header.get("SOPClassUID")
        if what not in _CLASSES:
            name = what.name if what else "of no stated kind"
            raise DataError(
                f"{path}: this DICOM file is {name}, not a segmentation (DICOM-SEG). Fix: remove it from the folder, "
                "or name the folder of the segmentations."
            )
        kind = header.get("SegmentationType")
        if kind not in _TYPES:
            raise DataError(
                f"{path}: its SegmentationType is {kind}, but only {' and '.join(_TYPES)} state one label per voxel. "
                "Fix: export it as a binary segmentation."
            )
        if "TotalPixelMatrixRows" in header:
            raise DataError(
                f"{path}: this segmentation has tiles of a whole slide, not planes of a volume. Fix: remove it from "
                "the folder."
            )
        frames = read_frames(header)
        if not frames or len(frames) != int(header.NumberOfFrames):
            raise DataError(
                f"{path}: its header states {header.NumberOfFrames} frames, but {len(frames)} positions. "
                "Fix: fetch the file again."
            )
        return header, frames


def _read_labels(stored: StoredSegmentation) -> np.ndarray:
    """Returns the labels of all voxels, `[i, j, k]`."""
    whole = np.zeros(stored.shape, np.uint8, order="F")
    values = np.zeros(max(stored.labels, default=0) + 1, np.uint8)  # of label maps, by segment number
    for number, label in stored.labels.items():
        values[number] = label
    with _damage_named(stored.path):
        pixels = _pixels(stored.path, stored.frames[0].size)
        for frame, place, one in zip(stored.frames, stored.places, pixels, strict=True):
            if frame.segment is None:
                unknown = set(np.unique(one).tolist()) - {0, *stored.labels}
                if unknown:
                    raise DataError(
                        f"{stored.path}: voxels have the segment number {min(unknown)}, which the header lacks. "
                        "Fix: fetch the file again."
                    )
                labels = place.oriented(values[one])
            else:
                labels = place.oriented(one.astype(bool) * np.uint8(stored.labels[frame.segment]))
            view = whole[place.region]
            clash = (view != 0) & (labels != 0) & (view != labels)
            if clash.any():
                raise _overlap(stored, int(view[clash][0]), int(labels[clash][0]))
            np.maximum(view, labels, out=view)
    return whole


def _pixels(path: Path, size: tuple[int, int]) -> Iterable[np.ndarray]:
    """Returns the pixels of each frame, `[rows, columns]`.

    Raises:
      DataError: the file is truncated; pydicom 3.0 reads missing bits as 0.
    """
    pydicom, (columns, rows) = import_pydicom(path), size
    file = pydicom.dcmread(path)
    needed = -(-int(file.NumberOfFrames) * rows * columns * int(file.BitsAllocated) // 8)
    if not file.file_meta.TransferSyntaxUID.is_encapsulated and len(file.PixelData) < needed:
        raise DataError(
            f"{path}: has {len(file.PixelData)} bytes of pixels, but its header declares {needed}. The file is "
            "truncated. Fix: fetch it again."
        )
    if columns * rows % 8:  # pydicom 3.0 cannot iterate over frames of single bits that do not fill their last byte
        return pydicom.pixels.pixel_array(file, raw=True).reshape(-1, rows, columns)
    return pydicom.pixels.iter_pixels(file, raw=True)


def _overlap(stored: StoredSegmentation, *labels: int) -> DataError:
    first, second = (
        next(f"{number} '{stored.names[number]}'" for number, value in stored.labels.items() if value == label)
        for label in labels
    )
    return DataError(
        f"{stored.path}: the segments {first} and {second} overlap, but a voxel has one label. Fix: export them "
        "without overlaps, for instance as a label map."
    )


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """Converts pydicom's errors about a damaged file into a DataError that names the file."""
    pydicom = import_pydicom(path)
    try:
        with reading_named(path):
            yield
    except (DataError, MemoryError):
        raise
    except pydicom.errors.InvalidDicomError as error:
        raise DataError(
            f"{path}: cannot be read as DICOM: the signature at the start of the file is missing. Fix: fetch the file "
            "again, or remove it if it is not DICOM."
        ) from error
    except Exception as error:  # pydicom and its decoders raise errors of many types for damaged files
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{path}: cannot be read as DICOM-SEG: it is damaged or lacks required elements ({reason}). "
            "Fix: fetch the file again."
        ) from error
