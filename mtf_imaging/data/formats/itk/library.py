"""Imports SimpleITK, which is an optional dependency."""

from types import ModuleType

from mtf_imaging.errors import DataError

INSTALL = 'pip install "mtf-imaging[itk]"'


def import_simpleitk(what: object) -> ModuleType:
    """Returns the module SimpleITK, with its warnings switched off.

    Args:
      what: the file to read or write, for the message.

    Raises:
      DataError: SimpleITK is not installed.
    """
    try:
        import SimpleITK
    except ImportError as error:
        raise DataError(
            f"{what}: NRRD and MetaImage files need the package SimpleITK, which is not installed. Fix: run {INSTALL}"
        ) from error
    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)  # errors are still raised
    return SimpleITK
