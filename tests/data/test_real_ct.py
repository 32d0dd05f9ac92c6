"""Tests the data functions on warped copies of one real CT, which are not part of the repository.

Their headers, geometry and texture are more varied than those of phantoms.
"""

from pathlib import Path

import nibabel
import numpy as np
import pytest

from mtf_imaging.data.cases.cases import find_cases
from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.sampling.sampling import whole_field
from tests.data.reading import read_labels, read_volume, write_labels
from tests.data.resampling import resample_nearest, resample_to_labels

FOLDER = Path(__file__).parents[2].parent / "shared" / "data" / "real_ct"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/data/real_ct does not exist")


def test_every_liver_is_on_the_right_for_any_header():
    cases = [case for name in ("train", "test") for case in find_cases(FOLDER / name)]
    assert len(cases) == 16
    for case in cases:
        volume = read_volume(case.volume)
        liver = np.argwhere(read_labels(case.labels, volume) >= 1)
        assert liver[:, 0].mean() > 0.6 * volume.hu.shape[0]


def test_labels_survive_resampling_to_a_grid_and_back(tmp_path):
    for case in find_cases(FOLDER / "train")[:4]:
        volume = read_volume(case.volume)
        labels = read_labels(case.labels, volume)
        write_labels(tmp_path / "same.nii.gz", labels, volume.geometry)
        source, written = nibabel.load(case.labels), nibabel.load(tmp_path / "same.nii.gz")
        np.testing.assert_array_equal(np.asarray(written.dataobj), np.asarray(source.dataobj))
        np.testing.assert_array_equal(written.affine, source.affine)
        grid = (96, 96, 96)
        on_grid = resample_nearest(labels, whole_field(labels.shape, grid))
        back = resample_to_labels(np.eye(3)[on_grid], whole_field(grid, labels.shape))
        dice = 2 * ((back >= 1) & (labels >= 1)).sum() / ((back >= 1).sum() + (labels >= 1).sum())
        assert dice > 0.97


def test_its_records_can_be_read_for_training(tmp_path):
    assert convert(FOLDER / "train", tmp_path, 16, progress=False) == [str(n) for n in range(12)]
    batch = next(iter(Records().training_batches(tmp_path, 12, seed=0)))
    assert sorted(batch["cases"], key=int) == [str(n) for n in range(12)]
    # All cases are warped scans of one patient, so their livers overlap on common axes.
    livers = batch["labels"].numpy() >= 1
    assert ((livers.mean(0) > 0.8).sum() / livers.sum((1, 2, 3)).mean()) > 0.5
