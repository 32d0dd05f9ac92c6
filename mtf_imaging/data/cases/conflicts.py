"""Finds conflicts between names: duplicate cases, similar names, and images without a case."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from mtf_imaging.data.listing.names import differ_only_in
from mtf_imaging.errors import DataError

_SHOWN = 3  # names in a message
_log = logging.getLogger(__name__)


def check_doubles(volumes: Mapping[str, tuple], others: Mapping[str, tuple]) -> None:
    """Checks that no image without the number of a channel has the name of a case whose images have numbers.

    Args:
      volumes: {key: (file, match)} of the cases.
      others: the same for the other images.

    Raises:
      DataError: there is such an image.
    """
    for key, (file, _) in others.items():
        if key in volumes:
            raise DataError(
                f"{volumes[key][0]} and {file}: both are images of case '{key}', with and without the number of a "
                "channel. Fix: rename or remove one of them."
            )


def similar_names(volumes: Sequence[Path], labels: Sequence[Path]) -> list[str]:
    """Returns a text about the first volume and segmentation without partner whose names differ only in case."""
    for volume in volumes:
        for other in labels:
            if differ_only_in(volume.name, other.name):
                return [f"the names {volume.name} and {other.name} differ in upper and lower case"]
    return []


def warn_of_similar(folder: Path, keys: Iterable[str]) -> None:
    """Warns of cases whose names differ only in case, and whose results can replace each other."""
    by_name: dict[str, str] = {}
    for key in keys:
        other = by_name.setdefault(key.casefold(), key)
        if other != key:
            _log.warning(
                "%s: the names of cases '%s' and '%s' differ only in upper and lower case; where file systems ignore "
                "case, the results of one replace those of the other",
                folder,
                other,
                key,
            )


def warn_of_others(
    folder: Path, what: str, files: Collection[Path], why: str = "whose names do not match the other cases"
) -> None:
    """Warns of images that belong to no case.

    Args:
      folder: the folder of the cases.
      what: what the files are, such as "PNG file".
      files: the files.
      why: why they are skipped.
    """
    if files:
        shown = ", ".join(str(file.relative_to(folder)) for file in sorted(files)[:_SHOWN])
        more = ", ..." if len(files) > _SHOWN else ""
        _log.warning("%s: skipped %d %s(s) %s: %s%s", folder, len(files), what, why, shown, more)
