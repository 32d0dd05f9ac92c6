"""Finds series whose files are in several folders, each of which would be read as a separate volume."""

import logging
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from mtf_imaging.data.formats.dicom.headers import Plane, read_planes
from mtf_imaging.data.formats.dicom.stacking import stack
from mtf_imaging.data.listing.dicom_files import dicom_files, first_dicom_file
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import Fault

_log = logging.getLogger(__name__)


def check_series_apart(folders: Iterable[Path]) -> None:
    """Checks that no two folders hold parts of the same series; warns if two folders hold the same series.

    Args:
      folders: folders of DICOM files, each an image. Only the first file of each is read, unless it has the same series
        as another folder. A folder with a damaged file is skipped here; reading its case reports the file.

    Raises:
      DataError: the planes in several folders have the same series UID, and form one volume together.
    """
    by_series: dict[str, list[Path]] = defaultdict(list)
    for folder in folders:
        for series in {plane.series for plane in _planes([first_dicom_file(folder)])}:  # a file may have many planes
            by_series[series].append(folder)
    for series, shared in by_series.items():
        if series and len(shared) > 1:
            _compare(series, {folder: _planes(dicom_files(folder)) for folder in shared})


def _compare(series: str, parts: dict[Path, list[Plane]]) -> None:
    planes = [plane for part in parts.values() for plane in part]
    shown = ", ".join(f"{folder} ({len(part)} files)" for folder, part in parts.items())
    if not planes:  # reading the cases reports the damaged files
        return
    try:
        stack(planes)
    except Fault:
        is_copy = len({plane.instance for plane in planes}) < len(planes)
        what = "hold the same files" if is_copy else "have the same SeriesInstanceUID"
        _log.warning("%s: these folders %s, %s; each is read as an image of its own.", shown, what, series)
        return
    of = f"one DICOM series, {series}, whose {len(planes)} planes together are one volume"
    raise DataError(f"{shown}: these folders hold parts of {of}. Fix: move the files of the series to one folder.")


def _planes(files: Iterable[Path | None]) -> list[Plane]:
    """Returns the headers of files; none if a file cannot be read."""
    try:
        return read_planes(file for file in files if file is not None)
    except DataError:
        return []
