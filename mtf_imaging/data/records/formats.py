"""The file formats of records, and the paths of records."""

import os
from pathlib import Path

from mtf_imaging.data.sampling.grid import Grid, parse_grid
from mtf_imaging.errors import ConfigError, DataError, LayoutError
from mtf_imaging.files.contained import contained
from mtf_imaging.spelling import did_you_mean

ZARR, TFRECORD = "zarr", "tfrecord"
ENDINGS = {ZARR: ".ome.zarr", TFRECORD: ".tfrecord"}
DEFAULT_CHUNK = 64  # voxels along each axis
_PREFIX = "case-"


def record_name(key: str, record_format: str = ZARR) -> str:
    """Returns the record name of case `key`."""
    return f"{_PREFIX}{key}{ENDINGS[record_format]}"


def record_path(data_dir: str | os.PathLike, key: str, record_format: str = ZARR) -> Path:
    """Returns the record path of case `key`.

    Raises:
      DataError: the key leads out of the folder.
      NameTooLong: file systems cannot store the name.
    """
    return contained(data_dir, record_name(key, record_format))


def list_records(data_dir: str | os.PathLike, record_format: str) -> list[Path]:
    """Returns the paths of all records with a given format in a folder."""
    return list(Path(data_dir).glob(f"{_PREFIX}*{ENDINGS[record_format]}"))


def format_by_path(path: str | os.PathLike) -> str:
    """Returns the format of a record from its name: TFRecord if it has that ending, otherwise Zarr."""
    return TFRECORD if Path(path).name.endswith(ENDINGS[TFRECORD]) else ZARR


def check_format(record_format: str) -> str:
    """Checks the name of a format, and returns it.

    Raises:
      ConfigError: the format does not exist.
    """
    if record_format not in ENDINGS:
        raise ConfigError(
            f"record_format '{record_format}' is unknown.{did_you_mean(str(record_format), ENDINGS)} "
            f"Fix: use {' or '.join(ENDINGS)}.",
            ["record_format"],
        )
    return record_format


def parse_chunk(chunk: str | int) -> Grid:
    """Parses the size of a chunk, in the format of a resolution.

    >>> parse_chunk("x:64,y:64,z:32")
    (64, 64, 32)

    Raises:
      ConfigError: x, y and z do not each have a positive size.
    """
    try:
        x, y, z = parse_grid(chunk)
    except (DataError, LayoutError):
        raise ConfigError(
            f"chunk '{chunk}': needs a positive size for x, y and z. Fix: give, for example, '64' or 'x:64,y:64,z:32'.",
            ["chunk"],
        ) from None
    return x, y, z


def clip_chunk(chunk: Grid | None, grid: Grid) -> Grid:
    """Returns the chunk size of a record, which does not exceed its grid.

    >>> clip_chunk(None, (128, 128, 48))
    (64, 64, 48)

    Args:
      chunk: number of voxels along x, y, z; None for 64 along each axis.
      grid: the grid of the record.
    """
    x, y, z = (min(DEFAULT_CHUNK if chunk is None else chunk[axis], size) for axis, size in enumerate(grid))
    return x, y, z
