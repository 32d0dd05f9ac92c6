"""Finds conflicts between names: duplicate cases, similar names, and images without a case."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from mtf_imaging.data.listing.names import differ_only_in
from mtf_imaging.errors import DataError
from mtf_imaging.plain_text import some

_log = logging.getLogger(__name__)


def check_doubles(volumes: Mapping[str, tuple], others: Mapping[str, tuple]) -> None:
    """Checks that no image without a channel number has the same case name as images with channel numbers.

    Args:
      volumes: {key: (file, match)} of the images with channel numbers.
      others: the same for images without channel numbers.

    Raises:
      DataError: an image has the same case name as images with channel numbers.
    """
    for key, (file, _) in others.items():
        if key in volumes:
            what = f"both are images of case '{key}', with and without the number of a channel"
            raise DataError(f"{volumes[key][0]} and {file}: {what}. Fix: rename one of them.")


def similar_names(volumes: Sequence[Path], labels: Sequence[Path]) -> list[str]:
    """Describes the first unpaired volume and segmentation whose names differ only in case."""
    for volume in volumes:
        for other in labels:
            if differ_only_in(volume.name, other.name):
                return [f"the names {volume.name} and {other.name} differ in upper and lower case"]
    return []


def warn_of_similar(folder: Path, keys: Iterable[str]) -> None:
    """Warns about cases whose names differ only in case, because their results can overwrite each other."""
    by_name: dict[str, str] = {}
    for key in keys:
        other = by_name.setdefault(key.casefold(), key)
        if other != key:
            what = (
                "differ only in upper and lower case; where file systems ignore it, one replaces results of the other"
            )
            _log.warning("%s: the names of cases '%s' and '%s' %s", folder, other, key, what)


def warn_of_others(
    folder: Path, what: str, files: Collection[Path], why: str = "whose names do not match the other cases"
) -> None:
    """Warns about images that do not belong to a case.

    Args:
      folder: the case folder.
      what: a noun for the files, such as "PNG file".
      files: the files.
      why: the reason that they are skipped.
    """
    if files:
        shown = some(file.relative_to(folder) for file in sorted(files))
        _log.warning("%s: skipped %d %s(s) %s: %s", folder, len(files), what, why, shown)
