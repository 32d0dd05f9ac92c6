"""One TFRecord file a case: HU and labels on the grid, and where they came from.

Records are not compressed: noise does not compress (a case at 64^3 takes 0.79 MB, with gzip 0.31), plain ones are
decoded at the speed of the disk, and TFRecord guards them by checksums.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import Sampling, format_spacing, parse_spacing
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.reading import access_named

# A TFRecord is a length of 8 bytes and its checksum, then the data and theirs.
_HEADER_BYTES, _FOOTER_BYTES = 12, 4
_MAX_BYTES = 2 << 30  # the limit of a protocol buffer, and so of a record
_BLOCK = 4 << 20
_REMAKE = "Fix: run convert again; it replaces damaged records."


@dataclass(frozen=True)
class Record:
    """A case on the grid.

    Attributes:
      key: its key.
      hu: int16 `[x, y, z]` on the grid, Hounsfield units.
      labels: uint8 `[x, y, z]` on the grid.
      affine: `[4, 4]` float64 of the canonical volume, before resampling: voxel index -> mm in RAS+.
      shape: voxels of the canonical volume, before resampling.
      spacing: their size in mm.
      sampled_at: size in mm of the grid's voxels; None where the grid spans the whole field of view.
      axis_codes: the axes of the file that it was read from, for instance `LPS`.
      source: digest of the files that it was made from.
    """

    key: str
    hu: np.ndarray
    labels: np.ndarray
    affine: np.ndarray
    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    sampled_at: tuple[float, float, float] | None
    axis_codes: str
    source: str

    @property
    def sampling(self) -> Sampling:
        """Where `hu` and `labels` lie in the volume."""
        return Sampling(self.hu.shape, self.sampled_at)


def write_record(path: str | Path, record: Record) -> None:
    """Writes a record, whole or not at all, and reads it again before it gets its name.

    Raises:
      DataError: what the disk holds is not what was written.
    """
    serialized = _serialized(record)
    with atomic_path(path) as temporary:
        with tf.io.TFRecordWriter(str(temporary)) as writer:
            writer.write(serialized)
        _verify(temporary, serialized, path)


def _serialized(record: Record) -> bytes:
    fields = {
        "key": record.key.encode(),
        "hu": np.asarray(record.hu, "<i2"),
        "labels": np.asarray(record.labels, np.uint8),
        "affine": np.asarray(record.affine, "<f8"),  # a float feature would keep 24 bits only
        "spacing": np.asarray(record.spacing, "<f8"),
        "sampled_at": format_spacing(record.sampled_at).encode(),
        "axis_codes": record.axis_codes.encode(),
        "source": record.source.encode(),
    }
    # One field at a time, because at 512^3 each copy of a record takes 0.4 GB. Messages one after the other are read as
    # the one that has all of their fields (protobuf's encoding, "Last One Wins" and merging of embedded messages).
    parts = []
    for name, value in fields.items():
        example = tf.train.Example()
        data = value.tobytes() if isinstance(value, np.ndarray) else value
        example.features.feature[name].bytes_list.value.append(data)
        del data
        parts.append(example.SerializeToString())
    example = tf.train.Example()
    for name, sizes in (("grid", record.hu.shape), ("shape", record.shape)):
        example.features.feature[name].int64_list.value.extend(sizes)
    return b"".join([*parts, example.SerializeToString(deterministic=True)])


def _verify(path: Path, serialized: bytes, name: str | Path) -> None:
    """Compares what the disk holds of a record with what it should; TensorFlow has added its checksums of that."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):  # so that it is read from the disk, not from memory
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(_HEADER_BYTES)
        blocks = (memoryview(serialized)[at : at + _BLOCK] for at in range(0, len(serialized), _BLOCK))
        same = all(file.read(len(block)) == block for block in blocks)
        if not same or len(file.read(_BLOCK)) != _FOOTER_BYTES:
            raise DataError(f"{name}: the disk gives back other bytes than were written. Fix: check it, use another.")


def read_record(path: str | Path, sampling: Sampling | None = None) -> Record:
    """Reads a record.

    Args:
      path: a file that `write_record` wrote, in this or an earlier release.
      sampling: the sampling that it must have, or None for any.

    Raises:
      DataError: the file is missing, truncated, corrupt or something else, or of another sampling.
    """
    _check_framing(path)
    try:
        serialized = tf.data.TFRecordDataset(str(path)).get_single_element().numpy()
        feature = tf.train.Example.FromString(serialized).features.feature
        found = _grid_of(feature["grid"])
        record = Record(
            key=_bytes_of(feature["key"]).decode(),
            hu=np.frombuffer(_bytes_of(feature["hu"]), "<i2").reshape(found),
            labels=np.frombuffer(_bytes_of(feature["labels"]), np.uint8).reshape(found),
            affine=np.frombuffer(_bytes_of(feature["affine"]), "<f8").reshape(4, 4),
            shape=_grid_of(feature["shape"]),
            spacing=tuple(np.frombuffer(_bytes_of(feature["spacing"]), "<f8").tolist()),
            # Records of format 1 do not have it: all of them span the whole field of view.
            sampled_at=parse_spacing(_bytes_of(feature["sampled_at"]).decode()) if "sampled_at" in feature else None,
            axis_codes=_bytes_of(feature["axis_codes"]).decode(),
            source=_bytes_of(feature["source"]).decode(),
        )
    except tf.errors.DataLossError as error:
        raise DataError(f"{path}: is damaged: its checksum does not match. {_REMAKE}") from error
    # protobuf raises DecodeError; the lines above raise the others if the content is something else
    except (DecodeError, ValueError, IndexError) as error:
        raise DataError(f"{path}: is not a record of this program. {_REMAKE}") from error
    if sampling is not None and record.sampling != sampling:
        raise DataError(
            f"{path}: this record has resolution {record.sampling}, asked for was {sampling}. "
            f"Fix: use a folder of its own for each resolution."
        )
    return record


def _check_framing(path: str | Path) -> None:
    """Checks that a record file is readable and has the length that its header declares."""
    with access_named(path):
        if not Path(path).is_file():
            raise DataError(f"{path}: this record does not exist. Fix: run convert again; it adds missing records.")
        with open(path, "rb") as file:
            header = file.read(_HEADER_BYTES)
            size = file.seek(0, os.SEEK_END)
    if not size:
        raise DataError(f"{path}: is empty. {_REMAKE}")
    needed = _HEADER_BYTES + int.from_bytes(header[:8], "little") + _FOOTER_BYTES
    if size != needed <= _MAX_BYTES:
        raise DataError(f"{path}: has {size} bytes, but should have {needed}: truncated or damaged. {_REMAKE}")
    if size != needed:
        raise DataError(f"{path}: is not a record of this program. {_REMAKE}")


def parse_record(serialized, grid: Grid) -> tuple:
    """The same in a TensorFlow graph, as far as training needs it.

    Args:
      serialized: Tensor[], string.
      grid: the grid of the record.

    Returns:
      key and source Tensor[] string, HU Tensor[x, y, z] int16, labels Tensor[x, y, z] uint8.
    """
    text = tf.io.FixedLenFeature([], tf.string)
    parsed = tf.io.parse_single_example(serialized, dict.fromkeys(("key", "source", "hu", "labels"), text))
    hu = tf.reshape(tf.io.decode_raw(parsed["hu"], tf.int16), grid)
    labels = tf.reshape(tf.io.decode_raw(parsed["labels"], tf.uint8), grid)
    return parsed["key"], parsed["source"], hu, labels


def _bytes_of(feature: tf.train.Feature) -> bytes:
    return feature.bytes_list.value[0]


def _grid_of(feature: tf.train.Feature) -> Grid:
    x, y, z = feature.int64_list.value
    return x, y, z
