"""Reads and writes `dataset.json`, the description of a data set, in the nnU-Net formats v2 and the Decathlon.

Additional keys, which nnU-Net ignores: `masks`, `lesions`, `intensities`, `crop_to_nonzero`, `label_names` and
`rules`.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.description.description_fields import as_fields, from_fields
from mtf_imaging.errors import DataError
from mtf_imaging.files.atomic import write_bytes
from mtf_imaging.files.json_file import parse_json
from mtf_imaging.files.reading import access_named
from mtf_imaging.files.text_file import read_regular

FILE = "dataset.json"
_IMAGE_FOLDERS = ("imagesTr", "imagesTs")
_PARTS = re.compile("(images|labels)T[rs]")  # the folders next to dataset.json
_OF_RECORDS = {"format", "resolution", "cases"}  # the manifest of a records folder has the same name


def read_description(folder: str | Path) -> Description | None:
    """Reads the `dataset.json` of a folder.

    Args:
      folder: the folder that contains the file.

    Returns:
      The description. `LITS`, possibly with a different file ending, if the only channel is a CT and the labels are
      liver and its lesions. None if the folder has no such file, if the file is empty, or if it is the manifest of a
      records folder, which does not describe images.

    Raises:
      DataError: the file cannot be read, or does not describe a data set that this program can use.
    """
    path = Path(folder) / FILE
    fields = read_fields(folder)
    return None if fields is None else from_fields(fields, str(path))


def find_description(path: str | Path) -> tuple[Description | None, int | None]:
    """Finds the description of the images in a folder.

    The file is in the folder; next to it if the folder is, for instance, `imagesTr`; or in subfolders that contain
    `imagesTr` or `imagesTs`.

    Args:
      path: a folder of images, or one image.

    Returns:
      The description and the number of training cases that its file states. Each is None if no file states it.

    Raises:
      DataError: a file is malformed, or two subfolders have different descriptions.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    stated = [(place, fields) for place in description_folders(path) if (fields := read_fields(place)) is not None]
    if not stated:
        return None, None
    descriptions = [from_fields(fields, str(place / FILE)) for place, fields in stated]
    for (place, _), description in zip(stated, descriptions, strict=True):
        if description != descriptions[0]:
            both = f"{stated[0][0] / FILE} and {place / FILE}"
            what = f"contains two data sets with different descriptions, {both}"
            raise DataError(f"{folder}: {what}. Fix: give the folder of one data set.")
    counts = [_num_training(fields, place / FILE) for place, fields in stated]
    return descriptions[0], None if None in counts else sum(filter(None, counts))


def _num_training(fields: Mapping[str, Any], path: Path) -> int | None:
    """Returns the number of training cases that a file states, or None."""
    count = fields.get("numTraining")
    if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
        raise DataError(f"{path}: numTraining is {count!r}, not a whole number. Fix: correct it, or remove it.")
    return count


def description_folders(path: str | Path) -> list[Path]:
    """Returns the folders whose `dataset.json` describes the images in a folder; see `find_description`.

    Args:
      path: a folder of images, or one image.

    Raises:
      DataError: a file is malformed.
    """
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    here = [folder, folder.absolute().parent] if _PARTS.fullmatch(folder.absolute().name) else [folder]
    stated = [place for place in here if read_fields(place) is not None][:1]
    if not stated and Path(path).is_dir():
        stated = [place for place in _data_sets(folder) if read_fields(place) is not None]
    return stated


def write_description(
    folder: str | Path, description: Description, num_training: int, others: Mapping[str, Any] | None = None
) -> Path:
    """Writes the `dataset.json` of a folder atomically, in the nnU-Net v2 format.

    Args:
      folder: the folder.
      description: the description of the images.
      num_training: the number of training cases, `numTraining`.
      others: other fields, for instance `{"name": "Phantoms"}`.

    Returns:
      The path of the file.
    """
    path = Path(folder) / FILE
    # The order of the regions has a meaning, so keys are not sorted.
    fields = {**as_fields(description), "numTraining": num_training, **(others or {})}
    write_bytes(path, (json.dumps(fields, indent=1) + "\n").encode())
    return path


def read_fields(folder: str | Path) -> dict[str, Any] | None:
    """Reads the fields of the `dataset.json` of a folder.

    Returns:
      The fields; None if the file does not exist or is the manifest of a records folder.

    Raises:
      DataError: the file cannot be read, or does not contain an object.
    """
    path = Path(folder) / FILE
    with access_named(path.parent):
        try:
            path.lstat()  # also for a link to a missing file, which raises an error below
        except (FileNotFoundError, NotADirectoryError):
            return None
    data = read_regular(path)
    if not data.strip():
        raise DataError(f"{path}: this file is empty. Fix: describe the data in it, or remove it if the data is LiTS.")
    fields = parse_json(data, path, "correct it, or remove it if the data is LiTS")
    if not isinstance(fields, dict):
        what = f"contains a {type(fields).__name__} instead of an object with channel_names and labels"
        raise DataError(f"{path}: {what}. Fix: use the format of nnU-Net or of the Medical Segmentation Decathlon.")
    return None if fields.keys() >= _OF_RECORDS else fields


def _data_sets(folder: Path) -> list[Path]:
    """Returns the subfolders with the structure of a data set, sorted by name."""
    with access_named(folder), os.scandir(folder) as entries:
        subfolders = sorted(path for entry in entries if (path := folder / entry.name).is_dir())
    found = []
    for subfolder in subfolders:
        with access_named(subfolder):
            if any((subfolder / name).is_dir() for name in _IMAGE_FOLDERS):
                found.append(subfolder)
    return found
