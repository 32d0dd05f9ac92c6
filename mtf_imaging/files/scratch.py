"""Large arrays in files without a name, which disappear with the process."""

import errno
import mmap
import os
import shutil
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mtf_imaging.errors import ConfigError, OutOfMemoryError, reason

_ALIGNMENT = 64  # of TensorFlow's tensors, in bytes
_ON_DISK = ("/var/tmp",)


def scratch_folder() -> str:
    """Returns the folder of temporary files with the most space.

    /tmp is often in memory; /var/tmp then has more space.
    """
    folders = [tempfile.gettempdir(), *([] if "TMPDIR" in os.environ else filter(os.path.isdir, _ON_DISK))]
    return max(folders, key=lambda folder: shutil.disk_usage(folder).free)


def aligned_array(shape: Sequence[int], dtype: npt.DTypeLike) -> np.ndarray:
    """Returns an array in memory, with the alignment of TensorFlow's tensors."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    raw = np.empty(size + _ALIGNMENT, np.uint8)
    begin = -raw.ctypes.data % _ALIGNMENT
    return raw[begin : begin + size].view(dtype).reshape(shape)


def file_array(shape: Sequence[int], dtype: npt.DTypeLike, folder: str, setting: str = "TMPDIR") -> np.ndarray:
    """Returns an array of zeros in a file of its own.

    Args:
      shape: the shape; no size may be 0.
      dtype: the dtype.
      folder: the folder of the file.
      setting: the setting or variable that names the folder, for the error message.

    Raises:
      OutOfMemoryError: the folder has too little space.
      ConfigError: the folder cannot be written.
    """
    dtype = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    handle = reserve(size, folder, "a large array needs", setting)
    try:
        return np.frombuffer(_OwnFile(handle, size), dtype).reshape(shape)
    finally:
        os.close(handle)


class _OwnFile(mmap.mmap):
    """The memory of a file without a name."""


def is_own_file(array: np.ndarray) -> bool:
    """Returns whether an array lies in a file that `file_array` created, with the alignment of TensorFlow's tensors."""
    if array.ctypes.data % _ALIGNMENT or not array.flags.c_contiguous:
        return False
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, _OwnFile)


def reserve(size: int, folder: str, need: str, setting: str, fix: str = "") -> int:
    """Creates a file without a name and reserves its space, so that a disk that fills later causes no error.

    Args:
      size: bytes of the file.
      folder: the folder of the file.
      need: the beginning of the error message.
      setting: the setting or variable that names the folder.
      fix: another fix than more space.

    Returns:
      The file descriptor.

    Raises:
      OutOfMemoryError: the folder has too little space.
      ConfigError: the folder cannot be written.
    """
    settings = [setting] if setting.islower() else []
    free = shutil.disk_usage(folder).free if os.path.isdir(folder) else 0
    try:
        handle, path = tempfile.mkstemp(prefix="mtf_imaging_", dir=folder)  # readable by this user alone
        os.unlink(path)
    except OSError as error:
        raise ConfigError(
            f"{setting} '{folder}' cannot be written: {reason(error)}. Fix: choose another folder.", settings
        ) from None
    enough = free >= size
    try:
        if enough:
            os.ftruncate(handle, size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(handle, 0, size)
    except OSError as error:  # not every file system can
        enough = error.errno != errno.ENOSPC
    if not enough:
        os.close(handle)
        raise OutOfMemoryError(
            f"{need} {size:,} bytes, but {setting} '{folder}' has only {free:,} bytes free. "
            f"Fix: choose a folder with more space{fix}.",
            settings,
        )
    return handle
