"""Records in memory, and the files of records."""

import dataclasses
import shutil
import tempfile
from pathlib import Path

import numpy as np

from mtf_imaging.data.intensities.schemes import apply_intensities
from mtf_imaging.data.records.facts import Facts
from mtf_imaging.data.records.make_record import write_case
from mtf_imaging.data.records.record_writer import RecordWriter
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.files.partial import remove


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record(Facts):
    """A record, whole in memory.

    Attributes:
      image: int16 `[x, y, z]` of Hounsfield units, or float32 `[x, y, z, channels]`.
      labels: uint8 `[x, y, z]`.
    """

    image: np.ndarray
    labels: np.ndarray

    @property
    def facts(self):
        """The facts, without the voxels."""
        return Facts(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Facts)})

    @property
    def num_channels(self):
        """Number of channels of a float32 image; None for Hounsfield units."""
        return None if self.image.ndim == 3 else self.image.shape[3]

    def network_input(self, intensities):
        """Returns the image as network input, float32 `[x, y, z, channels]`."""
        return apply_intensities(self.image.reshape(*self.labels.shape, -1), intensities, self.statistics)


def write_record(path, record, chunk=None):
    """Writes a record."""
    with RecordWriter(path, record.labels.shape, record.num_channels, chunk) as writer:
        writer.write_image(record.image, 0)
        writer.write_labels(record.labels, 0)
        writer.finish(record.facts)


def read_record(path, sampling=None):
    """Reads a whole record; see `StoredRecord`."""
    return in_memory(StoredRecord(path, sampling))


def in_memory(stored):
    """Reads the whole of a `StoredRecord`."""
    whole = whole_region(stored.grid)
    return Record(**vars(stored.facts), image=stored.image(whole), labels=stored.labels(whole))


def make_record(case, *sampling, **options):
    """Converts a case, and reads its record; see `write_case`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.ome.zarr"
        write_case(case, path, *sampling, **options)
        return read_record(path)


def contents(folder, *without):
    """Returns the contents of all files below a folder, but those of some names, by their paths in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in without)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def names(folder):
    """Returns the names of the files and folders in a folder."""
    return sorted(path.name for path in folder.iterdir())


def copy(source, target):
    """Replaces a record by another one."""
    remove(target)
    shutil.copytree(source, target)


def voxel_file(path):
    """Returns a file with voxels: a chunk of the record."""
    return min(path.rglob("c/*/*/*"))


def damage(path):
    """Changes one bit of the voxels of a record."""
    file = voxel_file(path)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
