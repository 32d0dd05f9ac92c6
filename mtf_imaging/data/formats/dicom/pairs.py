"""Finds the series of a folder to which DICOM-SEG files refer."""

import contextlib
import os
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from mtf_imaging.data.formats.dicom.files import read_dicom
from mtf_imaging.data.listing.dicom_files import dicom_files
from mtf_imaging.errors import DataError
from mtf_imaging.files.reading import damage_named

_SEGMENTATION = "SEG"  # the modality
_TAGS = ["Modality", "ReferencedSeriesSequence", "SegmentSequence", "SeriesInstanceUID"]


class Pair(NamedTuple):
    """A series and its segmentation.

    Attributes:
      series: the folder of the series.
      modality: its modality.
      masks: the DICOM-SEG files that refer to it.
    """

    series: Path
    modality: str
    masks: list[Path]


def find_pairs(folder: Path) -> list[Pair]:
    """Returns the series in a folder and its subfolders to which a DICOM-SEG file in any of them refers.

    Files that cannot be read are left out here; reading their case reports them.
    """
    series: dict[str, tuple[Path, str]] = {}
    masks: dict[str, list[Path]] = defaultdict(list)
    for file in (file for here, _, _ in os.walk(folder) for file in dicom_files(Path(here))):
        with contextlib.suppress(DataError), damage_named(file, "DICOM"):
            header = read_dicom(file, stop_before_pixels=True, specific_tags=_TAGS)
            if header.get("Modality") != _SEGMENTATION:
                series[str(header.get("SeriesInstanceUID"))] = file.parent, str(header.get("Modality"))
            elif sources := header.get("ReferencedSeriesSequence"):
                masks[str(sources[0].SeriesInstanceUID)].append(file)
    return [Pair(*series[uid], sorted(files)) for uid, files in masks.items() if uid in series]


def segment_labels(path: Path) -> set[str]:
    """Returns the names of the segments of a DICOM-SEG file."""
    with damage_named(path, "DICOM-SEG"):
        header = read_dicom(path, stop_before_pixels=True, specific_tags=_TAGS)
        segments = header.get("SegmentSequence") or ()
        return {str(segment.get("SegmentLabel") or "").strip() for segment in segments} - {""}
