"""Counts the labels of records."""

import math
from pathlib import Path

import numpy as np

from mtf_imaging.data.class_frequencies import MOST_IMAGES, NUM_VALUES, evenly_spread
from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.records.splits import Subset

_PLANES = 16  # voxels to read at a time
_MOST_VOXELS = 1 << 30  # voxels that can be read in seconds


def survey_records(
    data_dir: str | Path | Subset, most: int = MOST_IMAGES, most_voxels: int = _MOST_VOXELS
) -> LabelSurvey:
    """Counts the voxels of each label in the records in a folder.

    Args:
      data_dir: a records folder, or a subset of it.
      most: the maximum number of records to read, spread evenly over the list of cases.
      most_voxels: the approximate number of voxels to read if these records have more. In that case, only every n-th
        slab of each record is read.

    Returns:
      The number of voxels read per label, int64 `[256]`.

    Raises:
      DataError: the folder is incomplete, or a record is damaged.
    """
    manifest = open_records(data_dir)
    description, keys = manifest.description, evenly_spread(manifest.cases, most)
    total, ignored = np.zeros(NUM_VALUES, np.int64), []
    voxels = sum(math.prod(manifest.case_sampling(key).grid) for key in keys)
    step = _PLANES * math.ceil(voxels / most_voxels)
    for key in keys:
        record = manifest.open_record(data_dir, key)
        counts = np.zeros(NUM_VALUES, np.int64)
        x, y, z = record.grid
        for start in range(0, x, step):  # slabs, because bincount takes 8 bytes per voxel
            planes = record.labels((slice(start, min(start + _PLANES, x)), slice(0, y), slice(0, z)))
            counts += np.bincount(planes.ravel(), minlength=NUM_VALUES)
        if description.ignore is not None and counts[description.ignore] == counts.sum():
            ignored.append(key)
        total += counts
    return LabelSurvey(
        names=description.labels,
        counts=total,
        ignored=tuple(ignored),
        num_counted=len(keys),
        num_images=len(manifest.cases),
        unit="voxel",
        images="cases",
        source="dataset.json",
        is_partial=step > _PLANES,
    )


def count_labels(data_dir: str | Path | Subset, most: int = MOST_IMAGES, most_voxels: int = _MOST_VOXELS) -> np.ndarray:
    """Returns the number of voxels per label, int64 `[256]`; see `survey_records`."""
    return survey_records(data_dir, most, most_voxels).counts
