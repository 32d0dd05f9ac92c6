"""Counts the labels of records."""

from pathlib import Path

import numpy as np

from mtf_imaging.data.class_frequencies import MOST_IMAGES, NUM_VALUES, evenly_spread
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.records.opening import open_record
from mtf_imaging.data.records.splits import Subset

_PLANES = 16  # read at a time


def count_labels(data_dir: str | Path | Subset, most: int = MOST_IMAGES) -> np.ndarray:
    """Counts the voxels of each label in the records of a folder.

    Args:
      data_dir: a folder of records, or a subset of it.
      most: the number of records to read if the folder has more. They are spread evenly over the list of cases.

    Returns:
      int64 `[256]`, the number of voxels of each label.

    Raises:
      DataError: the folder is incomplete, or a record is damaged.
    """
    manifest = open_records(data_dir)
    counts = np.zeros(NUM_VALUES, np.int64)
    for key in evenly_spread(manifest.cases, most):
        record = open_record(manifest.record_path(data_dir, key), manifest.case_sampling(key))
        x, y, z = record.grid
        for start in range(0, x, _PLANES):  # bincount takes 8 bytes per voxel
            planes = record.labels((slice(start, min(start + _PLANES, x)), slice(0, y), slice(0, z)))
            counts += np.bincount(planes.ravel(), minlength=NUM_VALUES)
    return counts
