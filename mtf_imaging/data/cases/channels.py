"""Finds the channel files of cases, named as in nnU-Net: NAME_0000 is the first channel of case NAME."""

import collections
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.listing.image_formats import NIFTI, format_by_ending
from mtf_imaging.errors import DataError

_CHANNEL = re.compile(r"(.+)_(\d{4})")
_SHOWN = 3  # faulty cases named in a message
_log = logging.getLogger(__name__)


def order_channels(
    folder: Path, channels: Mapping[str, Mapping[int, Path]], description: Description
) -> dict[str, tuple[Path, ...]]:
    """Returns the files of each case, in channel order.

    Args:
      folder: the case folder, for messages.
      channels: {number: file} of each case's channels, by case key.
      description: the channels of the images.

    Returns:
      The files of each case by case key. A PNG or TIFF file may contain all channels, if no case has a second file.

    Raises:
      DataError: a case lacks channels, or has more channels than the description.
    """
    count = len(description.channels)
    is_nifti = format_by_ending(description.file_ending) is NIFTI
    if not is_nifti and all(files.keys() == {0} for files in channels.values()):
        return {key: (files[0],) for key, files in channels.items()}
    faults = []
    for key, files in channels.items():
        surplus = [file.name for number, file in sorted(files.items()) if number >= count]
        lacking = [_file_name(files, number) for number in range(count) if number not in files]
        if surplus or lacking:
            faults.append(f"case '{key}' {'has' if surplus else 'lacks'} {', '.join(surplus or lacking)}")
    if faults:
        more = f"; {len(faults) - _SHOWN} other case(s) have the same fault" if len(faults) > _SHOWN else ""
        what = f"{'; '.join(faults[:_SHOWN])}{more}, but dataset.json has {count} channel(s)"
        fix = "add the missing files, name their channels in dataset.json, or move these cases to another folder"
        raise DataError(f"{folder}: {what}, {', '.join(description.channels)}. Fix: {fix}.")
    return {key: tuple(files[number] for number in range(count)) for key, files in channels.items()}


def check_single_channel(
    folder: Path, names: Mapping[Path, str], first: Iterable[Path], refuse: bool, warn: bool
) -> None:
    """Checks for several channels of one case in a folder without a description.

    Args:
      folder: the case folder, for messages.
      names: the images and their names, which include subfolders but no ending.
      first: the file of each case.
      refuse: whether several channels are an error.
      warn: whether several channels log a warning.

    Raises:
      DataError: `refuse` is set, and a case has several channels.
    """
    channels = collections.defaultdict(list)
    for file, name in names.items():
        if match := _CHANNEL.fullmatch(name):
            channels[match[1]].append(file)
    volumes = {names[file] for file in first}
    several = {name: files for name, files in channels.items() if f"{name}_0000" in volumes and len(files) > 1}
    if several and refuse:
        name, files = next(iter(several.items()))
        more = f"; {len(several) - 1} other case(s) also have several channels" if len(several) > 1 else ""
        what = f"case '{Path(name).name}' has {len(files)} channels ({', '.join(f.name for f in files)}){more}"
        fix = "keep only the CT of each case, as NAME_0000, or add a dataset.json with channel_names and labels"
        raise DataError(f"{folder}: {what}, but there is no dataset.json that describes them. Fix: {fix}.")
    if warn:
        for files in several.values():
            what = "are named like the channels of one case; each file is read as a separate volume"
            _log.warning("%s: %s %s", folder, ", ".join(file.name for file in files), what)


def _file_name(files: Mapping[int, Path], number: int) -> str:
    """Returns the file name of a missing channel, derived from another channel's file."""
    other, file = next(iter(files.items()))
    start, _, ending = file.name.rpartition(f"_{other:04}.")
    return f"{start}_{number:04}.{ending}"
