"""Imports the optional packages that read and write some formats."""

import contextlib
from collections.abc import Iterator
from types import ModuleType

from mtf_imaging.errors import DataError

INSTALL_DICOM = 'pip install "mtf-imaging[dicom]"'


def import_pydicom(what: object) -> ModuleType:
    """Returns the module pydicom, which reads DICOM files.

    Args:
      what: the file or folder to read, for the message.

    Raises:
      DataError: pydicom is not installed, or is older than version 3.
    """
    with _needed(what, "DICOM files", "pydicom 3", INSTALL_DICOM):
        import pydicom.pixels  # new in version 3
    return pydicom


def import_highdicom(what: object) -> ModuleType:
    """Returns the module highdicom, which writes DICOM-SEG files; see `import_pydicom`."""
    with _needed(what, "DICOM-SEG files", "highdicom", 'pip install "mtf-imaging[dicom-seg]"'):
        import highdicom
    return highdicom


def import_simpleitk(what: object) -> ModuleType:
    """Returns the module SimpleITK, which reads NRRD and MetaImage files, with its warnings switched off."""
    with _needed(what, "NRRD and MetaImage files", "SimpleITK", 'pip install "mtf-imaging[itk]"'):
        import SimpleITK
    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)  # errors are still raised
    return SimpleITK


@contextlib.contextmanager
def _needed(what: object, files: str, package: str, install: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        why = f"{files} need the package {package}, which is not installed"
        raise DataError(f"{what}: {why}. Fix: run {install}") from error
