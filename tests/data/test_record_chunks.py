"""Tests the choice of the chunks of records by `convert`."""

import pytest

from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.errors import ConfigError, DataError
from tests.records import contents

OPTIONS = {"resolution": "x:8,y:5,z:6", "progress": False}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_chunks_have_the_chosen_size(lits_dir, out):
    convert(lits_dir, out, **OPTIONS, chunk="x:3,y:64,z:2")
    assert StoredRecord(out / "case-2.ome.zarr").chunk == (3, 5, 2)
    before = contents(out)
    for chunk in (None, "x:3,y:5,z:2"):
        convert(lits_dir, out, **OPTIONS, chunk=chunk)
        assert contents(out) == before
    with pytest.raises(DataError, match=r"3 of 3 .*\n.*record has chunks of x:3,y:5,z:2, not x:4,y:4,z:4\. Fix: conv"):
        convert(lits_dir, out, **OPTIONS, chunk=4)


@pytest.mark.parametrize("chunk", ["x:8,y:8", 0, "8x8x8"])
def test_mistakes_are_refused_at_once(lits_dir, out, chunk):
    with pytest.raises(ConfigError, match=f"chunk '{chunk}': needs a positive size for x, y and z\\. Fix") as raised:
        convert(lits_dir, out, **OPTIONS, chunk=chunk)
    assert raised.value.settings == ("chunk",)
    assert not out.exists()
