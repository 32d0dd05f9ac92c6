"""Writes files of synthetic images; existing files are compared, never overwritten."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.partial import is_partial

TRAIN, VAL = "train", "val"  # the splits
HELD_OUT = 4  # one in this many images is held out
DEFAULT_SIZE = (112, 161)
_JPEG_QUALITY = 90


def check_arguments(number: int, noun: str, size: tuple[int, int], lowest: int) -> None:
    """Raises DataError if the number of images, or the bounds of their sizes, are invalid."""
    if number < 1:
        name = f"num_{noun}s"
        raise DataError(f"{name} {number}: at least 1 {noun} is needed. Fix: set {name} to 1 or more.")
    if not lowest <= size[0] < size[1]:
        what = f"size {size}: must be two ascending integers from {lowest} on"
        raise DataError(f"{what}. Fix: use, for example, {DEFAULT_SIZE}.")


def check_other_files(folder: Path, patterns: Sequence[str], names: set[str], images: str) -> None:
    """Checks that a folder contains no other files.

    Args:
      folder: the folder.
      patterns: glob patterns of the files.
      names: the paths of the files, relative to the folder.
      images: a noun for the images, for the message.

    Raises:
      DataError: there are other files.
    """
    paths = [path for pattern in patterns for path in folder.glob(pattern) if not is_partial(path)]
    foreign = sorted({path.relative_to(folder).as_posix() for path in paths} - names)
    if foreign:
        what = f"contains {len(foreign)} file(s) of {images}, such as {foreign[0]}"
        raise DataError(f"{folder}: {what}. Fix: write to an empty folder.")


def write_once(path: Path, data: bytes, seed: int) -> None:
    """Writes a file, or compares it with an existing one.

    Raises:
      DataError: the existing file differs.
    """
    if not path.exists():
        write_bytes(path, data)
    elif path.read_bytes() != data:
        raise difference(path, seed)


def write_jpeg(path: Path, pixels: np.ndarray) -> None:
    """Writes an image, uint8 `[height, width, 3]`, as JPEG."""
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "JPEG", quality=_JPEG_QUALITY)
    write_bytes(path, data.getvalue())


def difference(path: Path, seed: int) -> DataError:
    """Returns the error about a file with different contents."""
    what = f"the contents of this file differ from the synthetic data of seed {seed}; nothing was overwritten"
    return DataError(f"{path}: {what}. Fix: use an empty folder.")
