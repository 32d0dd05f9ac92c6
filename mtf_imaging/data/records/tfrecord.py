"""Reads and writes records as TFRecord files, with the whole image and labels of one case.

TFRecord files are not compressed, because noise compresses badly (a case at 64^3 takes 0.79 MB, or 0.31 MB with gzip),
and uncompressed files are decoded as fast as the disk delivers them. TFRecord checksums protect them.
"""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from mtf_imaging.data.intensities import ChannelStatistics
from mtf_imaging.data.records.record import Facts, Record
from mtf_imaging.data.records.stored import RecordWriter, StoredRecord
from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.data.sampling.layers import Layers
from mtf_imaging.data.sampling.sampling import format_spacing, parse_spacing
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.reading import access_named

# A TFRecord is a length (8 bytes), the checksum of the length (4), the data and the checksum of the data (4).
_HEADER_BYTES, _FOOTER_BYTES = 12, 4
_MAX_BYTES = 2 << 30  # the size limit of a protocol buffer
_BLOCK = 4 << 20
_REMAKE = "Fix: run convert again; it replaces damaged records."


class TFRecord(StoredRecord):
    """A record in one file, which is read as a whole when its voxels are needed; see `StoredRecord`.

    Args:
      path: path of the file.

    Raises:
      DataError: the file is missing, damaged or not a record.
    """

    chunk = None

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        self._record: Record | None = read_tfrecord(path)
        self.facts = self._record.facts
        self.grid = self._record.labels.shape
        self.num_channels, self.has_hu = self._record.num_channels, self._record.values is None
        self._bytes = self.path.stat().st_size

    @property
    def bytes_read(self) -> int:
        """Size of the file."""
        return self._bytes

    def image(self, region: Region) -> np.ndarray:
        """Returns a region of the image; see `StoredRecord`."""
        return self.read().image[region]

    def labels(self, region: Region) -> np.ndarray:
        """Returns a region of the labels; see `StoredRecord`."""
        return self.read().labels[region]

    def check(self) -> None:
        """Does nothing, because opening the file verifies its checksum."""

    def read(self) -> Record:
        """Returns the whole record."""
        return self._record


class TFRecordWriter(RecordWriter):
    """Collects a whole record in memory, and writes it as one file; see `create_record`."""

    def __init__(self, path: str | os.PathLike, grid: Grid, num_channels: int | None) -> None:
        self._path = Path(path)
        dtype, channels = (np.int16, ()) if num_channels is None else (np.float32, (num_channels,))
        self._whole: dict[str, np.ndarray] = {}
        self._is_finished = False
        self._layers = {
            "image": Layers((*grid, *channels), dtype, grid, self._keeper("image")),
            "labels": Layers(grid, np.uint8, grid, self._keeper("labels")),
        }

    def _keeper(self, name: str) -> Callable[[int, int, np.ndarray], None]:
        def keep(axis: int, start: int, layer: np.ndarray) -> None:
            del axis, start  # the only layer, the whole volume
            self._whole[name] = layer

        return keep

    def write_image(self, slab: np.ndarray, start: int, axis: int = 0) -> None:
        """Writes planes of the image; see `RecordWriter`."""
        self._layers["image"].add(slab, start, axis)

    def write_labels(self, slab: np.ndarray, start: int, axis: int = 0) -> None:
        """Writes planes of the labels; see `RecordWriter`."""
        self._layers["labels"].add(slab, start, axis)

    def finish(self, facts: Facts) -> None:
        """Writes the file; see `RecordWriter`."""
        if not all(layers.is_complete for layers in self._layers.values()):
            raise ShapeError(f"{self._path}: planes of the record are missing")
        write_tfrecord(self._path, Record.from_parts(facts, self._whole["image"], self._whole["labels"]))
        self._is_finished = True

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._is_finished:
            raise ShapeError(f"{self._path}: the record was not finished")


def write_tfrecord(path: str | Path, record: Record) -> None:
    """Writes a record atomically, and verifies it before the file gets its final name.

    Raises:
      DataError: the bytes on disk differ from the bytes that were written.
    """
    serialized = _serialized(record)
    with atomic_path(path) as temporary:
        with tf.io.TFRecordWriter(str(temporary)) as writer:
            writer.write(serialized)
        _verify(temporary, serialized, path)


def _serialized(record: Record) -> bytes:
    fields = {
        "key": record.key.encode(),
        **({"hu": np.asarray(record.hu, "<i2")} if record.values is None else {}),
        "labels": np.asarray(record.labels, np.uint8),
        "affine": np.asarray(record.affine, "<f8"),  # a float feature keeps only 24 bits
        "spacing": np.asarray(record.spacing, "<f8"),
        "sampled_at": format_spacing(record.sampled_at).encode(),
        "axis_codes": record.axis_codes.encode(),
        "source": record.source.encode(),
    }
    if record.values is not None:
        fields["values"] = np.asarray(record.values, "<f4")
    if record.statistics:
        fields["statistics"] = np.array([dataclasses.astuple(channel) for channel in record.statistics], "<f8")
    # Fields are serialized separately because each copy of a record at 512^3 takes 0.4 GB. Concatenated messages parse
    # as one message with all fields (protobuf encoding, "Last One Wins" and merging of embedded messages).
    parts = []
    for name, value in fields.items():
        example = tf.train.Example()
        data = value.tobytes() if isinstance(value, np.ndarray) else value
        example.features.feature[name].bytes_list.value.append(data)
        del data
        parts.append(example.SerializeToString())
    example = tf.train.Example()
    for name, sizes in (("grid", record.labels.shape), ("shape", record.shape)):
        example.features.feature[name].int64_list.value.extend(sizes)
    return b"".join([*parts, example.SerializeToString(deterministic=True)])


def _verify(path: Path, serialized: bytes, name: str | Path) -> None:
    """Compares the bytes on disk with the serialized record; TensorFlow has added checksums around them."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):  # drop the page cache, to read from the disk
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        file.seek(_HEADER_BYTES)
        blocks = (memoryview(serialized)[at : at + _BLOCK] for at in range(0, len(serialized), _BLOCK))
        same = all(file.read(len(block)) == block for block in blocks)
        if not same or len(file.read(_BLOCK)) != _FOOTER_BYTES:
            raise DataError(
                f"{name}: the bytes on disk differ from those written. Fix: check the disk, or use another disk."
            )


def read_tfrecord(path: str | os.PathLike) -> Record:
    """Reads a record from a file that `write_tfrecord` wrote, in this or an earlier release.

    Raises:
      DataError: the file is missing, damaged or not a record.
    """
    _check_framing(path)
    try:
        serialized = tf.data.TFRecordDataset(str(path)).get_single_element().numpy()
        feature = tf.train.Example.FromString(serialized).features.feature
        grid, has_values = _get_grid(feature["grid"]), "values" in feature
        return Record(
            key=_get_bytes(feature["key"]).decode(),
            hu=None if has_values else np.frombuffer(_get_bytes(feature["hu"]), "<i2").reshape(grid),
            labels=np.frombuffer(_get_bytes(feature["labels"]), np.uint8).reshape(grid),
            affine=np.frombuffer(_get_bytes(feature["affine"]), "<f8").reshape(4, 4),
            shape=_get_grid(feature["shape"]),
            spacing=tuple(np.frombuffer(_get_bytes(feature["spacing"]), "<f8").tolist()),
            # Format 1 records lack this field; they all span the whole field of view.
            sampled_at=parse_spacing(_get_bytes(feature["sampled_at"]).decode()) if "sampled_at" in feature else None,
            axis_codes=_get_bytes(feature["axis_codes"]).decode(),
            source=_get_bytes(feature["source"]).decode(),
            values=np.frombuffer(_get_bytes(feature["values"]), "<f4").reshape(*grid, -1) if has_values else None,
            statistics=_get_statistics(feature["statistics"]) if "statistics" in feature else (),
        )
    except tf.errors.DataLossError as error:
        raise DataError(f"{path}: this record is damaged: its checksum does not match. {_REMAKE}") from error
    # protobuf raises DecodeError; the conversions above raise the other errors if the content is not a record
    except (DecodeError, ValueError, IndexError, TypeError) as error:
        raise DataError(f"{path}: not a record of this program. {_REMAKE}") from error


def _check_framing(path: str | Path) -> None:
    """Checks that a record file is readable and has the length that its header declares."""
    with access_named(path):
        if not Path(path).is_file():
            raise DataError(f"{path}: this record does not exist. Fix: run convert again; it adds missing records.")
        with open(path, "rb") as file:
            header = file.read(_HEADER_BYTES)
            size = file.seek(0, os.SEEK_END)
    if not size:
        raise DataError(f"{path}: this record is empty. {_REMAKE}")
    needed = _HEADER_BYTES + int.from_bytes(header[:8], "little") + _FOOTER_BYTES
    if size != needed <= _MAX_BYTES:
        raise DataError(f"{path}: this record is truncated or damaged: it has {size} bytes, not {needed}. {_REMAKE}")
    if size != needed:
        raise DataError(f"{path}: not a record of this program. {_REMAKE}")


def _get_statistics(feature: tf.train.Feature) -> tuple[ChannelStatistics, ...]:
    count = len(dataclasses.fields(ChannelStatistics))
    channels = np.frombuffer(_get_bytes(feature), "<f8").reshape(-1, count).tolist()
    return tuple(ChannelStatistics(*channel) for channel in channels)


def _get_bytes(feature: tf.train.Feature) -> bytes:
    return feature.bytes_list.value[0]


def _get_grid(feature: tf.train.Feature) -> Grid:
    x, y, z = feature.int64_list.value
    return x, y, z
