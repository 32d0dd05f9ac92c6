"""Reads and writes records, TFRecord files with the image and labels of one case and their origin.

A record of a single CT has Hounsfield units as int16. Any other record has the values of all channels as float32,
before their intensity schemes, and the statistics that these schemes need.

Records are not compressed because noise compresses badly (a case at 64^3 takes 0.79 MB, or 0.31 MB with gzip), and
uncompressed records are decoded at the speed of the disk. TFRecord protects them with checksums.
"""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from mtf_imaging.data.intensities import ChannelStatistics, Intensity
from mtf_imaging.data.network_input import apply_intensities
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import Sampling, format_spacing, parse_spacing
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import atomic_path
from mtf_imaging.files.reading import access_named

# A TFRecord is a length (8 bytes), the checksum of the length (4), the data and the checksum of the data (4).
_HEADER_BYTES, _FOOTER_BYTES = 12, 4
_MAX_BYTES = 2 << 30  # the size limit of a protocol buffer
_BLOCK = 4 << 20
_REMAKE = "Fix: run convert again; it replaces damaged records."


@dataclass(frozen=True)
class Record:
    """A converted case.

    Attributes:
      key: key of the case.
      hu: int16 `[x, y, z]` on the grid, Hounsfield units; None if the record has `values` instead.
      labels: uint8 `[x, y, z]` on the grid.
      affine: `[4, 4]` float64, voxel index -> mm in RAS+ of the canonical volume, before resampling.
      shape: number of voxels of the canonical volume along x, y, z, before resampling.
      spacing: voxel size of the canonical volume in mm, before resampling.
      sampled_at: voxel size of the grid in mm, or None if the grid spans the whole field of view.
      axis_codes: direction of each stored axis of the volume's file, for example `LPS`.
      source: digest of the contents of the source files.
      values: float32 `[x, y, z, channels]` on the grid; None if the record has `hu` instead.
      statistics: the distribution of each channel in the whole case, before resampling; empty for LiTS.
    """

    key: str
    hu: np.ndarray | None
    labels: np.ndarray
    affine: np.ndarray
    shape: tuple[int, int, int]
    spacing: tuple[float, float, float]
    sampled_at: tuple[float, float, float] | None
    axis_codes: str
    source: str
    values: np.ndarray | None = None
    statistics: tuple[ChannelStatistics, ...] = ()

    @property
    def sampling(self) -> Sampling:
        """Resolution and spacing of the record."""
        return Sampling(self.labels.shape, self.sampled_at)

    @property
    def num_channels(self) -> int:
        """Number of channels of the image."""
        return 1 if self.values is None else self.values.shape[3]

    def network_input(self, intensities: Sequence[Intensity]) -> np.ndarray:
        """Returns the image as a network sees it, float32 `[x, y, z, channels]`.

        Args:
          intensities: the intensity scheme of each channel.
        """
        values = self.hu[..., np.newaxis] if self.values is None else self.values
        return apply_intensities(values, intensities, self.statistics)


def write_record(path: str | Path, record: Record) -> None:
    """Writes a record atomically, and verifies it before the file gets its name.

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
        "affine": np.asarray(record.affine, "<f8"),  # a float feature would keep only 24 bits
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


def read_record(path: str | Path, sampling: Sampling | None = None) -> Record:
    """Reads a record.

    Args:
      path: a file that `write_record` wrote, in this or an earlier release.
      sampling: the required sampling, or None for any.

    Raises:
      DataError: the file is missing, damaged or not a record, or the record has another sampling.
    """
    _check_framing(path)
    try:
        serialized = tf.data.TFRecordDataset(str(path)).get_single_element().numpy()
        feature = tf.train.Example.FromString(serialized).features.feature
        grid, has_values = _get_grid(feature["grid"]), "values" in feature
        record = Record(
            key=_get_bytes(feature["key"]).decode(),
            hu=None if has_values else np.frombuffer(_get_bytes(feature["hu"]), "<i2").reshape(grid),
            labels=np.frombuffer(_get_bytes(feature["labels"]), np.uint8).reshape(grid),
            affine=np.frombuffer(_get_bytes(feature["affine"]), "<f8").reshape(4, 4),
            shape=_get_grid(feature["shape"]),
            spacing=tuple(np.frombuffer(_get_bytes(feature["spacing"]), "<f8").tolist()),
            # Records of format 1 lack this field; they all span the whole field of view.
            sampled_at=parse_spacing(_get_bytes(feature["sampled_at"]).decode()) if "sampled_at" in feature else None,
            axis_codes=_get_bytes(feature["axis_codes"]).decode(),
            source=_get_bytes(feature["source"]).decode(),
            values=np.frombuffer(_get_bytes(feature["values"]), "<f4").reshape(*grid, -1) if has_values else None,
            statistics=_get_statistics(feature["statistics"]) if "statistics" in feature else (),
        )
    except tf.errors.DataLossError as error:
        raise DataError(f"{path}: this record is damaged: its checksum does not match. {_REMAKE}") from error
    # protobuf raises DecodeError; the conversions above raise the others if the content is not a record
    except (DecodeError, ValueError, IndexError, TypeError) as error:
        raise DataError(f"{path}: not a record of this program. {_REMAKE}") from error
    if sampling is not None and record.sampling != sampling:
        raise DataError(
            f"{path}: this record has resolution {record.sampling}, not {sampling}. "
            "Fix: use a separate folder for each resolution."
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
        raise DataError(f"{path}: this record is empty. {_REMAKE}")
    needed = _HEADER_BYTES + int.from_bytes(header[:8], "little") + _FOOTER_BYTES
    if size != needed <= _MAX_BYTES:
        raise DataError(f"{path}: this record is truncated or damaged: it has {size} bytes, not {needed}. {_REMAKE}")
    if size != needed:
        raise DataError(f"{path}: not a record of this program. {_REMAKE}")


def parse_record(serialized, grid: Grid, num_channels: int | None = None) -> tuple:
    """Parses the fields of a record that training needs, in a TensorFlow graph.

    Args:
      serialized: Tensor[] string.
      grid: the grid of the record.
      num_channels: number of channels of a record with `values`; None for a record with `hu`.

    Returns:
      (key, source, image, labels): Tensor[] string, Tensor[] string, Tensor[x, y, z] int16 of HU or Tensor[x, y, z,
      channels] float32, and Tensor[x, y, z] uint8.
    """
    name, dtype, shape = (
        ("hu", tf.int16, grid) if num_channels is None else ("values", tf.float32, (*grid, num_channels))
    )
    text = tf.io.FixedLenFeature([], tf.string)
    parsed = tf.io.parse_single_example(serialized, dict.fromkeys(("key", "source", name, "labels"), text))
    image = tf.reshape(tf.io.decode_raw(parsed[name], dtype), shape)
    labels = tf.reshape(tf.io.decode_raw(parsed["labels"], tf.uint8), grid)
    return parsed["key"], parsed["source"], image, labels


def _get_statistics(feature: tf.train.Feature) -> tuple[ChannelStatistics, ...]:
    count = len(dataclasses.fields(ChannelStatistics))
    channels = np.frombuffer(_get_bytes(feature), "<f8").reshape(-1, count).tolist()
    return tuple(ChannelStatistics(*channel) for channel in channels)


def _get_bytes(feature: tf.train.Feature) -> bytes:
    return feature.bytes_list.value[0]


def _get_grid(feature: tf.train.Feature) -> Grid:
    x, y, z = feature.int64_list.value
    return x, y, z
