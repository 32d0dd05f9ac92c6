"""Writes small series of DICOM files."""

from pathlib import Path

import gdcm
import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, EnhancedCTImageStorage, ExplicitVRLittleEndian, generate_uid

AXIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
PIXEL_MM = (0.75, 0.5)  # distance between rows, columns
STEP_MM = 2.5
_GROUPS = {
    "PixelMeasuresSequence": ("PixelSpacing", "SliceThickness"),
    "PlaneOrientationSequence": ("ImageOrientationPatient",),
    "PixelValueTransformationSequence": ("RescaleSlope", "RescaleIntercept"),
}
SERIES = "1.2.826.0.1.3680043.8.498.1"


def write_plane(path: Path, pixels: np.ndarray, position, orientation=AXIAL, **values) -> Path:
    """Writes pixels `[rows, columns]`, int16 or uint16, as one DICOM file.

    Args:
      path: the file.
      pixels: the stored numbers.
      position: the center of the first pixel in LPS.
      orientation: the directions of rows and columns.
      **values: other elements of the header; None removes one.
    """
    header = Dataset()
    header.file_meta = FileMetaDataset()
    header.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    header.SOPClassUID = header.file_meta.MediaStorageSOPClassUID = CTImageStorage
    header.SOPInstanceUID = header.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    header.StudyInstanceUID, header.SeriesInstanceUID = "1.2.3", SERIES
    header.Modality, header.SeriesDescription = "CT", "abdomen"
    header.ImagePositionPatient = [round(float(mm), 6) for mm in position]
    header.ImageOrientationPatient = [round(float(cosine), 8) for cosine in orientation]
    header.PixelSpacing, header.SliceThickness = list(PIXEL_MM), STEP_MM
    header.Rows, header.Columns = pixels.shape
    header.BitsAllocated = header.BitsStored = 16
    header.HighBit, header.SamplesPerPixel = 15, 1
    header.PixelRepresentation = int(pixels.dtype.kind == "i")
    header.PhotometricInterpretation = "MONOCHROME2"
    header.RescaleSlope, header.RescaleIntercept = 1, -1024
    header.PixelData = pixels.tobytes()
    for name, value in values.items():
        if value is None:
            delattr(header, name)
        else:
            setattr(header, name, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    header.save_as(path, enforce_file_format=True)
    return path


def write_series(
    folder: Path, numbers: np.ndarray, orientation=AXIAL, origin=(-20.0, 10.0, 30.0), step: float = STEP_MM, **values
) -> Path:
    """Writes stored numbers `[columns, rows, planes]` as one file per plane, named in another order than the planes.

    Args:
      folder: the folder.
      numbers: the stored numbers.
      orientation: the directions of rows and columns; planes follow their cross product.
      origin: the position of the first plane in LPS.
      step: the distance of planes in mm.
      **values: other elements of every header.
    """
    normal = np.cross(orientation[:3], orientation[3:])
    count = numbers.shape[2]
    for plane in range(count):
        name = f"IM{(plane * 7 + 3) % 100:04}.dcm"
        position = np.asarray(origin) + plane * step * normal
        write_plane(folder / name, np.ascontiguousarray(numbers[..., plane].T), position, orientation, **values)
    return folder


def plane_file(folder: Path, plane: int) -> Path:
    """Returns the file of a plane that `write_series` wrote."""
    return folder / f"IM{(plane * 7 + 3) % 100:04}.dcm"


def compress(path: Path, syntax: str) -> None:
    """Compresses the pixels of a file with GDCM; `syntax` is a name such as "JPEG2000Lossless"."""
    reader = gdcm.ImageReader()
    reader.SetFileName(str(path))
    assert reader.Read()
    change = gdcm.ImageChangeTransferSyntax()
    change.SetTransferSyntax(gdcm.TransferSyntax(getattr(gdcm.TransferSyntax, syntax)))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer = gdcm.ImageWriter()
    writer.SetFileName(str(path))
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    assert writer.Write()


def write_enhanced(path: Path, numbers: np.ndarray, orientation=AXIAL, origin=(-20.0, 10.0, 30.0), **values) -> Path:
    """Writes stored numbers `[columns, rows, planes]` as one enhanced CT, whose frames are in another order."""
    normal, count = np.cross(orientation[:3], orientation[3:]), numbers.shape[2]
    order = [*range(1, count, 2), *range(0, count, 2)]
    pixels = np.ascontiguousarray(numbers[..., order].T)
    header = pydicom.dcmread(write_plane(path, pixels[0], origin, orientation))

    shared, frames = Dataset(), [Dataset() for _ in order]
    for group, names in _GROUPS.items():
        content = Dataset()
        for name in names:
            setattr(content, name, header.pop(name).value)
        setattr(shared, group, [content])
    for frame, plane in zip(frames, order, strict=True):
        place = Dataset()
        place.ImagePositionPatient = [*np.round(np.asarray(origin) + plane * STEP_MM * normal, 6)]
        frame.PlanePositionSequence = [place]
    del header.ImagePositionPatient
    header.SharedFunctionalGroupsSequence, header.PerFrameFunctionalGroupsSequence = [shared], frames
    header.SOPClassUID = header.file_meta.MediaStorageSOPClassUID = EnhancedCTImageStorage
    header.NumberOfFrames, header.PixelData = count, pixels.tobytes()
    for name, value in values.items():
        setattr(header, name, value)
    header.save_as(path, enforce_file_format=True)
    return path
