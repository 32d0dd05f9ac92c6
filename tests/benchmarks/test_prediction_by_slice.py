"""The benchmark of predictions by slices, on a small volume."""

import pytest

from benchmarks import prediction_by_slice
from benchmarks.whole_volume import store


@pytest.mark.slow
def test_two_processes_and_one_write_the_same_file(tmp_path):
    store(tmp_path, (20, 16, 12), "int16.nii")
    settings = {"grid": "8", "volume": str(tmp_path / "volume-0.nii"), "mesh": "", "layout": "", "filters": 0}
    (row,) = prediction_by_slice.run(1, settings | {"output": str(tmp_path / "one.nii")})
    assert row["peak"] > 1 << 20
    split = {"mesh": "rows:2", "layout": "x:rows", "output": str(tmp_path / "two.nii")}
    rows = prediction_by_slice.run(2, settings | split)
    assert [row["process"] for row in rows] == [0, 1]
    assert (tmp_path / "one.nii").read_bytes() == (tmp_path / "two.nii").read_bytes()
