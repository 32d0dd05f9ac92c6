"""Imports pydicom, which is an optional dependency."""

from types import ModuleType

from mtf_imaging.errors import DataError

INSTALL = "pip install pydicom python-gdcm"  # the extra "dicom" of this package


def import_pydicom(what: object) -> ModuleType:
    """Returns the module pydicom.

    Args:
      what: the file or folder to read, for the message.

    Raises:
      DataError: pydicom is not installed.
    """
    try:
        import pydicom
    except ImportError as error:
        raise DataError(
            f"{what}: DICOM files need the package pydicom, which is not installed. Fix: run {INSTALL}"
        ) from error
    return pydicom
