"""Opens and creates records on disk, in either format."""

import os

from mtf_imaging.data.records.formats import ZARR, format_by_path
from mtf_imaging.data.records.record import Record
from mtf_imaging.data.records.stored import RecordWriter, StoredRecord
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError


def open_record(path: str | os.PathLike, sampling: Sampling | None = None) -> StoredRecord:
    """Opens a record. For a Zarr record, only metadata is read; for a TFRecord file, voxels are read on first use.

    Args:
      path: a record that this or an earlier release wrote.
      sampling: the required sampling, or None for any.

    Raises:
      DataError: the record is missing, damaged or not a record, or it has another sampling.
    """
    stored: StoredRecord
    if format_by_path(path) == ZARR:
        from mtf_imaging.data.records.zarr_record import ZarrRecord

        stored = ZarrRecord(path)
    else:
        from mtf_imaging.data.records.tfrecord import TFRecord

        stored = TFRecord(path)
    if sampling is not None and stored.sampling != sampling:
        raise DataError(
            f"{path}: this record has resolution {stored.sampling}, not {sampling}. "
            "Fix: use a separate folder for each resolution."
        )
    return stored


def create_record(
    path: str | os.PathLike, *, grid: Grid, num_channels: int | None = None, chunk: Grid | None = None
) -> RecordWriter:
    """Returns the writer of a record, in the format that the file ending indicates.

    Args:
      path: path of the record; an existing record is replaced when the new one is complete.
      grid: number of voxels along x, y, z.
      num_channels: number of channels in a float32 image; None for Hounsfield units as int16.
      chunk: size of a chunk in voxels along x, y, z; None for 64. Chunks are clipped to the grid. A TFRecord
        file has no chunks.
    """
    if format_by_path(path) == ZARR:
        from mtf_imaging.data.records.zarr_writer import ZarrWriter

        return ZarrWriter(path, grid, num_channels, chunk)
    from mtf_imaging.data.records.tfrecord import TFRecordWriter

    return TFRecordWriter(path, grid, num_channels)


def read_record(path: str | os.PathLike, sampling: Sampling | None = None) -> Record:
    """Reads a whole record; see `open_record`."""
    return open_record(path, sampling).read()


def write_record(path: str | os.PathLike, record: Record, chunk: Grid | None = None) -> None:
    """Writes a whole record atomically, and verifies it before it gets its name; see `create_record`.

    Raises:
      DataError: the bytes on disk differ from the bytes that were written.
    """
    num_channels = None if record.values is None else record.num_channels
    with create_record(path, grid=record.labels.shape, num_channels=num_channels, chunk=chunk) as writer:
        writer.write_image(record.image, 0)
        writer.write_labels(record.labels, 0)
        writer.finish(record.facts)
