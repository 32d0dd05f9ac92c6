"""Imports pydicom, which is an optional dependency."""

from types import ModuleType

from mtf_imaging.errors import DataError

INSTALL = 'pip install "mtf-imaging[dicom]"'
_OLDEST = 3  # the first version with `pydicom.pixels`


def import_pydicom(what: object) -> ModuleType:
    """Returns the module pydicom.

    Args:
      what: the file or folder to read, for the message.

    Raises:
      DataError: pydicom is not installed, or is older than version 3.
    """
    try:
        import pydicom
    except ImportError as error:
        raise DataError(
            f"{what}: DICOM files need the package pydicom, which is not installed. Fix: run {INSTALL}"
        ) from error
    if int(pydicom.__version__.partition(".")[0]) < _OLDEST:
        raise DataError(
            f"{what}: DICOM files need pydicom {_OLDEST} or later, but version {pydicom.__version__} is installed. "
            f"Fix: run {INSTALL}"
        )
    return pydicom
