"""Series of DICOM files, and functions that edit their headers and planes."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from benchmarks.reliability.files.nifti import SHAPE, SPACING, abdomen

PLANES = 8
Edit = Callable[[Path], None]


def write_series(folder: Path, number: int = 0, **elements: Any) -> Path:
    """Writes the abdomen of `nifti` as a series, one file per plane, with additional header elements."""
    hu, _ = abdomen(number)
    folder.mkdir(parents=True, exist_ok=True)
    for plane in range(hu.shape[2]):
        pixels = np.ascontiguousarray(hu[::-1, ::-1, plane].T + 1024).astype(np.int16)
        item = Dataset()
        item.file_meta = FileMetaDataset()
        item.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        item.SOPClassUID = item.file_meta.MediaStorageSOPClassUID = CTImageStorage
        item.SOPInstanceUID = item.file_meta.MediaStorageSOPInstanceUID = generate_uid(
            entropy_srcs=[str(number), str(plane)]
        )
        item.StudyInstanceUID, item.SeriesInstanceUID = f"1.2.{number}", f"1.2.{number}.1"
        item.Modality, item.SeriesDescription, item.InstanceNumber = "CT", "abdomen", plane + 1
        item.ImagePositionPatient = list(position(plane))
        item.ImageOrientationPatient = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
        item.PixelSpacing, item.SliceThickness = [SPACING[1], SPACING[0]], SPACING[2]
        item.Rows, item.Columns = pixels.shape
        item.BitsAllocated = item.BitsStored = 16
        item.HighBit, item.SamplesPerPixel, item.PixelRepresentation = 15, 1, 1
        item.PhotometricInterpretation = "MONOCHROME2"
        item.RescaleSlope, item.RescaleIntercept = 1, -1024
        item.PixelData = pixels.tobytes()
        for name, value in elements.items():
            setattr(item, name, value)
        item.save_as(file_of(folder, plane), enforce_file_format=True)
    return folder


def position(plane: int) -> tuple[float, float, float]:
    """Returns the position of a plane in LPS, equal to the NIfTI files', whose first voxel is last along both axes."""
    return 20.0 - SPACING[0] * (SHAPE[0] - 1), -10.0 - SPACING[1] * (SHAPE[1] - 1), 30.0 + SPACING[2] * plane


def file_of(folder: Path, plane: int) -> Path:
    """Returns the path of a plane."""
    return folder / f"IM{plane:04}.dcm"


def elements(*planes: int, **new: Any) -> Edit:
    """Sets header elements of some planes, or of all planes without `planes`; None removes an element."""

    def edit(folder: Path) -> None:
        for plane in planes or range(PLANES):
            path = file_of(folder, plane)
            item = pydicom.dcmread(path)
            for name, value in new.items():
                if value is None:
                    delattr(item, name)
                else:
                    setattr(item, name, value)
            item.save_as(path)

    return edit


def positions(place: Callable[[int], tuple[float, float, float]]) -> Edit:
    """Moves every plane."""

    def edit(folder: Path) -> None:
        for plane in range(PLANES):
            elements(plane, ImagePositionPatient=[round(value, 4) for value in place(plane)])(folder)

    return edit


def padding(folder: Path) -> None:
    """Marks the corners of every plane as padding, with the largest number that can be stored."""
    for plane in range(PLANES):
        path = file_of(folder, plane)
        item = pydicom.dcmread(path)
        pixels = item.pixel_array.copy()
        pixels[:2, :2] = 32767
        item.PixelData = pixels.tobytes()
        item.add_new("PixelPaddingValue", "SS", 32767)
        item.save_as(path)


def bytes_of(plane: int, change: Callable[[bytes], bytes]) -> Edit:
    """Changes the bytes of a plane."""

    def edit(folder: Path) -> None:
        path = file_of(folder, plane)
        path.write_bytes(change(path.read_bytes()))

    return edit


def duplicate(folder: Path) -> None:
    """Adds a copy of a plane with a different instance number."""
    shutil.copy(file_of(folder, 3), folder / "IM0099.dcm")


def half_in_another_folder(folder: Path) -> None:
    """Moves half of the planes to an adjacent folder."""
    other = folder.with_name(f"{folder.name}-2")
    other.mkdir()
    for plane in range(PLANES // 2):
        file_of(folder, plane).rename(other / file_of(folder, plane).name)
