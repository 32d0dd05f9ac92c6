"""Lists the cases of a published data set whose names no other command reads, and of series with DICOM-SEG files."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from mtf_imaging.data.cases.cases import Case, DataSet, names_in, natural_key
from mtf_imaging.data.cases.conflicts import warn_of_others
from mtf_imaging.data.cases.schemes import PUBLISHED, Scheme
from mtf_imaging.data.class_frequencies import evenly_spread
from mtf_imaging.data.description.description import ANY_RULES
from mtf_imaging.data.description.description_fields import from_fields
from mtf_imaging.data.formats.all_formats import open_stored
from mtf_imaging.data.formats.dicom.pairs import find_pairs, segment_labels
from mtf_imaging.data.listing.image_formats import NIFTI, VOLUME_FORMATS, is_dicom_seg

_MASKS = 8  # whose values are read if neither the scheme nor a file states them
_PAIRS = "DICOM: series to which DICOM-SEG files refer"


def find_published(folder: Path) -> DataSet | None:
    """Returns the cases of the first published scheme that fits a folder, or of series with DICOM-SEG files, or None.

    The channels are those that most cases have; cases without one of them are left out, with a warning.
    """
    names = names_in(folder, VOLUME_FORMATS, needed=False)
    for scheme in PUBLISHED:
        images, masks = scheme.match_channels(names), _masks(scheme, names)
        if not images or not masks.keys() & images.keys():
            continue
        own = [n for n in range(len(scheme.channels)) if 2 * sum(n in files for files in images.values()) > len(images)]
        cases = {key: tuple(files[n] for n in own) for key, files in images.items() if files.keys() >= {*own}}
        others = [file for key, files in images.items() if key not in cases for file in files.values()]
        warn_of_others(folder, "image", others, "of cases that lack a channel")
        channels = [[*scheme.channels][n] for n in own]
        return _data_set(scheme.title, channels, scheme.values or _labels(masks.values()), cases, masks)
    pairs = {"_".join(pair.series.relative_to(folder).parts) or folder.name: pair for pair in find_pairs(folder)}
    if not pairs:
        return None
    others = [file for pair in pairs.values() for file in pair.masks[1:]]
    warn_of_others(folder, "DICOM-SEG file", others, "after the first of a series")
    cases, masks = {}, {}
    for key, pair in pairs.items():
        cases[key], masks[key] = (pair.series,), pair.masks[0]
    return _data_set(_PAIRS, [next(iter(pairs.values())).modality], _labels(masks.values()), cases, masks)


def _data_set(
    title: str,
    channels: Iterable[str],
    labels: Mapping[str, int],
    cases: Mapping[str, tuple[Path, ...]],
    masks: Mapping[str, Path],
) -> DataSet:
    names = {str(number): name for number, name in enumerate(channels)}
    fields = {"channel_names": names, "labels": {"background": 0, **labels}, "rules": ANY_RULES}
    found = [
        Case(key, files[0], masks.get(key), key + NIFTI.endings[0], files)
        for key, files in sorted(cases.items(), key=lambda item: natural_key(item[0]))
    ]
    return DataSet(from_fields(fields, title), found, f"{title}; only inspect reads it: let it write a dataset.json")


def _masks(scheme: Scheme, names: dict[Path, str]) -> dict[str, Path]:
    """Returns the mask of each case, by case key; a folder if each label has a mask."""
    if "?P<label>" not in scheme.labels:
        return {key: file for key, (file, _) in scheme.match_files(names, scheme.labels).items()}
    matches = ((file, re.fullmatch(scheme.labels, name)) for file, name in names.items())
    return {scheme.case_key(match): file.parent for file, match in matches if match}


def _labels(masks: Iterable[Path]) -> dict[str, int]:
    """Returns the labels of masks: the names of files in folders and of segments, or the values in files with names."""
    masks = [*masks]
    named = [
        {*map(VOLUME_FORMATS.stem, mask.iterdir())} if mask.is_dir() else segment_labels(mask)
        for mask in masks
        if mask.is_dir() or is_dicom_seg(mask)
    ]
    if named:
        return {name: value for value, name in enumerate(sorted(set().union(*named) - {None}), 1)}
    names: dict[int, str] = {}
    for mask in evenly_spread(masks, _MASKS):
        (stored,), _ = open_stored(mask)
        planes, depth = stored.open(), stored.shape[2]
        for start in range(0, depth, stored.slab_planes):
            values = np.unique(planes.read(slice(start, min(start + stored.slab_planes, depth))))
            found = {int(value) for value in stored.scaled(values) if value > 0}
            names |= {value: stored.names.get(value, f"label_{value}") for value in found}
        planes.close()
    return {name: value for value, name in sorted(names.items())}
