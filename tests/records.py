"""Files of records, for tests of both formats."""

import shutil

from mtf_imaging.data.records.chunks import METADATA
from mtf_imaging.files.partial import remove


def contents(folder):
    """Returns the contents of all files below a folder, by their paths in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def names(folder):
    """Returns the names of the files and folders in a folder."""
    return sorted(path.name for path in folder.iterdir())


def copy(source, target):
    """Replaces a record by another one."""
    remove(target)
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def voxel_file(path):
    """Returns a file with voxels: a chunk of a Zarr record, or the file of a TFRecord."""
    return next(file for file in sorted(path.rglob("c/*/*/*"))) if path.is_dir() else path


def damage(path):
    """Changes one bit of the voxels of a record."""
    file = voxel_file(path)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def is_metadata(name):
    """Returns whether a file of a record has metadata."""
    return name.endswith(METADATA)
