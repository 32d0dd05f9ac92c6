"""The benchmark of whole volumes on a small one: it runs, and every type of file contains the same CT."""

import numpy as np
import pytest

from benchmarks import whole_volume
from tests.data.reading import read_labels, read_volume


@pytest.mark.parametrize("file", whole_volume.FILES)
def test_every_kind_of_file_holds_the_same_ct(tmp_path, file):
    for folder, kind in ((tmp_path / "a", file), (tmp_path / "b", "int16.nii")):
        folder.mkdir()
        whole_volume.store(folder, (20, 16, 12), kind)
    ours, plain = (read_volume(next(folder.glob("volume-0.*"))) for folder in (tmp_path / "a", tmp_path / "b"))
    np.testing.assert_array_equal(ours.hu, plain.hu)
    assert set(np.unique(read_labels(tmp_path / "a/segmentation-0.nii.gz", ours))) == {0, 1, 2}


@pytest.mark.parametrize("what", ["predict", "convert"])
def test_a_row_is_measured(tmp_path, what):
    (tmp_path / "cases").mkdir()
    whole_volume.store(tmp_path / "cases", (20, 16, 12), "int16.nii.gz")
    seconds, peak, over_import = whole_volume.measure(what, tmp_path / "cases", (8, 8, 8))
    assert seconds > 0
    assert peak > 1 << 26
    assert 0 <= over_import < peak


def test_sizes_are_read():
    assert whole_volume.sizes("256") == (256, 256, 256)
    assert whole_volume.sizes("512x512x400") == (512, 512, 400)
