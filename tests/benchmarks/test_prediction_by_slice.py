"""The benchmark of predictions by slices, on a small volume."""

import pytest

from benchmarks import prediction_by_slice
from benchmarks.whole_volume import store


@pytest.mark.slow
def test_two_processes_and_one_write_the_same_file(tmp_path):
    store(tmp_path, (20, 16, 12), "int16.nii")
    settings = {"grid": "8", "volume": str(tmp_path / "volume-0.nii"), "layout": ("", ""), "filters": 0}
    (row,) = prediction_by_slice.run(1, settings | {"output": str(tmp_path / "one.nii")})
    assert row["peak"] > 1 << 20
    split = {"layout": ("rows:2", "x:rows"), "output": str(tmp_path / "two.nii")}
    rows = prediction_by_slice.run(2, settings | split)
    assert [row["process"] for row in rows] == [0, 1]
    turns = {"layout": ("slabs:4", "x:slabs", "slabs"), "output": str(tmp_path / "turns.nii")}
    prediction_by_slice.run(1, settings | turns)
    one, two, in_turns = ((tmp_path / f"{name}.nii").read_bytes() for name in ("one", "two", "turns"))
    assert one == two == in_turns
