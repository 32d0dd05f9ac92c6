"""Finds DICOM files by name and content, without pydicom."""

import os
from collections.abc import Iterator
from pathlib import Path

from mtf_imaging.files.reading import access_named, check_not_special

_PREAMBLE_BYTES = 128
_SIGNATURE = b"DICM"  # after the preamble
_ENDINGS = (".dcm", ".dicom", ".ima")
SHOWN_ENDINGS = f"{', '.join(_ENDINGS)}, a number or no ending"
_INDEX = "DICOMDIR"  # an index of other files


def is_dicom_file(path: Path) -> bool:
    """Returns whether a file has a DICOM ending, whatever its content, or DICOM's signature.

    Raises:
      DataError: the file cannot be read.
    """
    if path.suffix.lower() in _ENDINGS:
        check_not_special(path)
        return path.is_file()
    if not path.is_file():
        return False
    with access_named(path), open(path, "rb") as file:
        file.seek(_PREAMBLE_BYTES)
        return file.read(len(_SIGNATURE)) == _SIGNATURE


def may_be_dicom(name: str) -> bool:
    """Returns whether a file with this name may be DICOM: it has a DICOM ending, a number as in UIDs, or no ending.

    >>> [may_be_dicom(name) for name in ("1.dcm", "IM0001", "1.2.840.113", "volume-3.nii.gz", ".DS_Store", "DICOMDIR")]
    [True, True, True, False, False, False]
    >>> [may_be_dicom(name) for name in ("slice_1.5mm", "1.2.840.113-1", "notes.txt")]
    [True, True, False]
    """
    if name.startswith(".") or name == _INDEX:
        return False
    ending = Path(name).suffix.lower()
    return ending in _ENDINGS or ending[1:2].isdigit() or not ending


def holds_dicom(folder: Path) -> bool:
    """Returns whether a folder itself, without its subfolders, contains a DICOM file.

    Args:
      folder: any path; for a file, the result is False.

    Raises:
      DataError: the folder or one of its files cannot be read.
    """
    return folder.is_dir() and first_dicom_file(folder) is not None


def dicom_files(folder: Path) -> list[Path]:
    """Lists the DICOM files of a folder, without its subfolders, sorted by name; other files are skipped.

    A file with a DICOM ending is listed whatever its content, so that a damaged file is not skipped.

    Raises:
      DataError: the folder or one of its files cannot be read.
    """
    return [*_files(folder)]


def first_dicom_file(folder: Path) -> Path | None:
    """Returns the first file of `dicom_files`, or None; the other files are not opened.

    Raises:
      DataError: the folder or one of its files cannot be read.
    """
    return next(_files(folder), None)


def _files(folder: Path) -> Iterator[Path]:
    with access_named(folder):
        names = sorted(os.listdir(folder))
    return (folder / name for name in names if may_be_dicom(name) and is_dicom_file(folder / name))
