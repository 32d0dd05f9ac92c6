"""Writes segmentations of DICOM series as DICOM-SEG, with highdicom."""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mtf_imaging.data.formats.dicom.files import read_dicom
from mtf_imaging.data.formats.dicom.headers import read_planes
from mtf_imaging.data.formats.dicom.label_codes import Code, LabelCodes, segment_name
from mtf_imaging.data.formats.dicom.segmentation_reading import PARAMETER
from mtf_imaging.data.formats.dicom.series import DicomGeometry
from mtf_imaging.data.formats.label_slabs import numbered_slabs
from mtf_imaging.data.formats.packages import import_highdicom
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.listing.dicom_files import dicom_files, first_dicom_file
from mtf_imaging.data.listing.image_formats import is_zarr
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.provenance.package import NAME
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.reading import Fault, damage_named

_MOST_CHARACTERS = 10240 - len(f"{PARAMETER}=")  # of the DICOM type LT
_UTF_8 = "ISO_IR 192"
_SERIES_NUMBER = 900  # series from scanners have smaller numbers
# Elements that DICOM-SEG copies from the series. DICOM requires the first group; the others may be empty.
_NEEDED = ("FrameOfReferenceUID", "StudyInstanceUID", "SeriesInstanceUID", "SOPInstanceUID")
_MAY_BE_EMPTY = (
    *("AccessionNumber", "PatientBirthDate", "PatientID", "PatientName", "PatientSex"),
    *("ReferringPhysicianName", "StudyDate", "StudyID", "StudyTime"),
)


def write_dicom_seg(
    path: Path,
    slabs: Iterable[np.ndarray],
    geometry: Geometry,
    provenance: Provenance | None,
    segments: Mapping[str, LabelCodes],
) -> None:
    """Writes a segmentation as one DICOM-SEG object, which refers to the files of its series.

    Each label is a binary segment. Frames without voxels of a label are left out. All labels are held in memory, at 2
    bytes per voxel. Each call creates new UIDs for the object and its series. The write is atomic.

    The provenance is stored where DICOM PS3.3 provides for it: the version in SoftwareVersions (C.7.5.2) and
    AlgorithmVersion, the JSON text in AlgorithmParameters of each segment (Algorithm Identification Macro, 10.16), and
    the short form in ContributionDescription of the Contributing Equipment Sequence (SOP Common Module, C.12.1.1.5).

    Args:
      path: the .dcm file to write or replace.
      slabs: the labels, uint8 `[x, y, z]` in canonical axes, in slabs of any thickness in the order of
        `geometry.plane_order`.
      geometry: geometry of the series.
      provenance: the provenance to store. Without it, only the package version is stored.
      segments: the codes of the labels 1, 2, ..., by label name.

    Raises:
      DataError: highdicom is missing, the files of the series lack required elements, or the shapes of the labels and
        the volume differ.
    """
    highdicom = import_highdicom(path)
    assert isinstance(geometry, DicomGeometry)  # see `check_series`
    stored = [geometry.to_stored(slab) for _, slab in numbered_slabs(path, slabs, geometry)]
    labels = np.ascontiguousarray(np.concatenate(stored, axis=2).transpose(2, 1, 0))  # [plane, row, column]
    labels = labels[np.argsort(geometry.frames, kind="stable")]  # as one file with all planes stores them
    del stored
    headers = read_headers(geometry.files)
    origin = provenance or Provenance()
    release = origin.package.release[:64]
    with _quiet():
        file = highdicom.seg.Segmentation(
            source_images=headers,
            pixel_array=labels,
            segmentation_type=highdicom.seg.SegmentationTypeValues.BINARY,
            segment_descriptions=_descriptions(highdicom, segments, origin),
            series_instance_uid=highdicom.UID(),
            series_number=_SERIES_NUMBER,
            sop_instance_uid=highdicom.UID(),
            instance_number=1,
            manufacturer=NAME,
            manufacturer_model_name=NAME,
            software_versions=release,
            device_serial_number=release,  # required, but programs have no serial number
            series_description=segment_name(f"Segmentation: {', '.join(segments)}"),
            content_description="Automatic segmentation",
            contributing_equipment=[_equipment(highdicom, origin)],
        )
    file.ContentCreatorName = None  # must be present, and may be empty (DICOM PS3.3, table 10-12)
    if not all(text.isascii() for name, codes in segments.items() for text in (name, *codes.meanings)):
        file.SpecificCharacterSet = _UTF_8  # the character set of the series may lack these characters
    with atomic_path(path) as temporary:
        file.save_as(temporary)


def check_series(path: Path, volume: Path) -> None:
    """Checks that a segmentation can be written as DICOM-SEG, before it is computed.

    Args:
      path: the file to write.
      volume: the volume.

    Raises:
      DataError: highdicom is missing, the volume is not a DICOM series, its files lack required elements, or several
        files have several frames each, which highdicom does not support.
    """
    import_highdicom(path)
    first = first_dicom_file(volume) if volume.is_dir() and not is_zarr(volume) else None
    if first is None:
        what = f"DICOM-SEG refers to the files of a DICOM series, but {volume} is not a DICOM series"
        fix = "give the folder of the series, or another output_format"
        raise DataError(f"{path}: {what}. Fix: {fix}.", ["output_format"])
    frames = read_headers([first])[0].get("NumberOfFrames") or 1
    if frames > 1 and len({plane.path for plane in read_planes(dicom_files(volume))}) > 1:
        what = f"{volume} has several files with several frames each, which a DICOM-SEG of highdicom cannot refer to"
        raise DataError(f"{path}: {what}. Fix: use another output_format.", ["output_format"])


def read_headers(files: Sequence[Path]) -> list[Any]:
    """Reads the headers of a series, without pixels.

    Raises:
      DataError: a header lacks an element that DICOM-SEG needs.
    """
    headers = []
    for path in files:
        with damage_named(path, "DICOM"):
            header = read_dicom(path, stop_before_pixels=True)
            if missing := [name for name in _NEEDED if not header.get(name)]:
                what = f"its header lacks {', '.join(missing)}, which DICOM-SEG refers to"
                raise Fault(what, "give the original series, or another output_format", ["output_format"])
        for name in _MAY_BE_EMPTY:
            if name not in header:
                setattr(header, name, None)
        headers.append(header)
    return headers


def _equipment(highdicom: ModuleType, origin: Provenance) -> Any:
    return highdicom.ContributingEquipment(
        manufacturer=NAME,
        purpose_of_reference=highdicom.sr.CodedConcept("109102", "DCM", "Processing Equipment"),
        manufacturer_model_name=NAME,
        software_versions=origin.package.release[:64],
        contribution_description=origin.note,
    )


def _descriptions(highdicom: ModuleType, segments: Mapping[str, LabelCodes], origin: Provenance) -> list[Any]:
    algorithm = highdicom.AlgorithmIdentificationSequence(
        name=NAME,
        version=origin.package.release[:64],
        family=highdicom.sr.CodedConcept("123110", "DCM", "Artificial Intelligence"),
        parameters={PARAMETER: origin.text(_MOST_CHARACTERS)},
    )

    def concept(code: Code) -> Any:
        return highdicom.sr.CodedConcept(code.value, code.scheme, code.meaning)

    return [
        highdicom.seg.SegmentDescription(
            segment_number=number,
            segment_label=segment_name(name),
            segmented_property_category=concept(codes.category),
            segmented_property_type=concept(codes.type),
            anatomic_regions=None if codes.region is None else [concept(codes.region)],
            algorithm_type=highdicom.seg.SegmentAlgorithmTypeValues.AUTOMATIC,
            algorithm_identification=algorithm,
        )
        for number, (name, codes) in enumerate(segments.items(), 1)
    ]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences highdicom's warning about segmentations without voxels, which are allowed."""
    log = logging.getLogger("highdicom")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
