"""Errors of single cases: one bad file is reported by name and does not stop the processing of the others."""

import contextlib
import errno
import logging
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping

from mtf_imaging.errors import DataError, MtfImagingError, reason
from mtf_imaging.files.reading import memory_named

TRACEBACK = "MTF_IMAGING_TRACEBACK"  # if not empty, unexpected errors include a traceback
# Operating system errors that every later case would raise, too.
_OF_THE_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EPIPE, errno.EIO}
_log = logging.getLogger(__name__)


@contextlib.contextmanager
def case_errors(path: str | os.PathLike) -> Iterator[None]:
    """Converts any unexpected exception about a case into a DataError that names its file.

    Errors from this package, TensorFlow and the machine, such as a full disk, are not converted.

    Args:
      path: the file of the case.
    """
    try:
        with memory_named(path):
            yield
    except MtfImagingError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            raise
        if "OpError" in {kind.__name__ for kind in type(error).__mro__}:  # TensorFlow may not be imported
            raise
        shown = traceback.format_exc()
        if os.environ.get(TRACEBACK):
            _log.warning("%s: %s", path, shown)
        else:
            _log.debug("%s: %s", path, shown)
        if isinstance(error, OSError) and error.strerror:
            where = os.fspath(path) if error.filename is None else error.filename
            raise DataError(f"{where}: {error.strerror}. Fix: check the path and its name.") from error
        raise DataError(
            f"{path}: cannot be used ({type(error).__name__}: {reason(error)}). Fix: check this file. If other "
            "programs read it, report this message with the traceback, which the environment variable "
            f"{TRACEBACK}=1 shows."
        ) from error


class CaseFaults:
    """Collects the errors of cases, which are reported together after all other cases are done.

    Args:
      at_once: whether to stop at the first error, for instance because other processes wait for this case.
      faults: earlier errors by case key.
    """

    def __init__(self, at_once: bool = False, faults: Mapping[str, DataError] | None = None) -> None:
        self.at_once = at_once
        self._faults = dict(faults or {})

    @contextlib.contextmanager
    def collect(self, key: str, path: str | os.PathLike) -> Iterator[None]:
        """Collects a DataError or an unexpected exception of the block.

        Args:
          key: the case name.
          path: its file.
        """
        try:
            with case_errors(path):
                yield
        except DataError as error:
            if self.at_once:
                raise
            self.add(key, error)

    def add(self, key: str, error: DataError) -> None:
        """Adds an error of a case."""
        # Without its traceback, which would keep the arrays of the case in memory.
        self._faults[key] = DataError(str(error), error.settings)

    def __iter__(self) -> Iterator[str]:
        return iter(self._faults)

    def check(self, keys: Iterable[str], noun: str = "cases") -> None:
        """Raises one DataError for all collected errors, if there are any.

        Args:
          keys: the names of all cases, in the order of the report.
          noun: a noun for the cases, for the message.
        """
        keys = list(dict.fromkeys(keys))
        faults = [self._faults[key] for key in keys if key in self._faults]
        if len(faults) == 1:
            raise faults[0]
        if faults:
            lines = "".join(f"\n  {fault}" for fault in faults)
            settings = dict.fromkeys(name for fault in faults for name in fault.settings)
            raise DataError(f"{len(faults)} of {len(keys)} {noun} cannot be used:{lines}", settings)
