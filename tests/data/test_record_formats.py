"""Tests the choice of the format and of the chunks of records by `convert`."""

import json

import numpy as np
import pytest

from mtf_imaging.data.records.convert import convert
from mtf_imaging.data.records.formats import ENDINGS
from mtf_imaging.data.records.manifest import open_records, read_manifest
from mtf_imaging.data.records.opening import open_record, read_record
from mtf_imaging.errors import ConfigError, DataError
from tests.records import contents, names

OPTIONS = {"resolution": "x:8,y:5,z:6", "progress": False}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_both_formats_hold_the_same_records(lits_dir, tmp_path):
    for name in ENDINGS:
        convert(lits_dir, tmp_path / name, **OPTIONS, record_format=name)
        manifest = open_records(tmp_path / name)
        assert manifest.record_format == name
        assert names(tmp_path / name) == sorted([f"case-{key}{ENDINGS[name]}" for key in (2, 9, 10)] + ["dataset.json"])
    for key in ("2", "9", "10"):
        one, other = (read_record(tmp_path / name / f"case-{key}{ending}") for name, ending in ENDINGS.items())
        for name, value in vars(one).items():
            np.testing.assert_array_equal(value, getattr(other, name))


@pytest.mark.parametrize(("first", "second"), [("zarr", "tfrecord"), ("tfrecord", "zarr")])
def test_a_folder_has_records_of_one_format(lits_dir, out, first, second):
    convert(lits_dir, out, **OPTIONS, record_format=first)
    before = contents(out)
    convert(lits_dir, out, **OPTIONS)  # continues in the format of the folder
    assert contents(out) == before
    for _ in range(2):  # with a manifest, then without one
        with pytest.raises(DataError, match=rf"contains records of format {first}, not {second}\. Fix: convert to"):
            convert(lits_dir, out, **OPTIONS, record_format=second)
        (out / "dataset.json").unlink(missing_ok=True)


def test_chunks_have_the_chosen_size(lits_dir, out):
    convert(lits_dir, out, **OPTIONS, chunk="x:3,y:64,z:2")
    assert open_record(out / "case-2.ome.zarr").chunk == (3, 5, 2)
    before = contents(out)
    for chunk in (None, "x:3,y:5,z:2"):
        convert(lits_dir, out, **OPTIONS, chunk=chunk)
        assert contents(out) == before
    with pytest.raises(DataError, match=r"3 of 3 .*\n.*record has chunks of x:3,y:5,z:2, not x:4,y:4,z:4\. Fix: conv"):
        convert(lits_dir, out, **OPTIONS, chunk=4)


@pytest.mark.parametrize(
    ("options", "error", "text", "settings"),
    [
        (
            {"record_format": "tfrecords"},
            ConfigError,
            r"record_format 'tfrecords' is unknown\..*'tfrecord'.*Fix: use",
            ("record_format",),
        ),
        (
            {"record_format": "tfrecord", "chunk": 8},
            ConfigError,
            "chunk = 8 has no effect on records of format tfrecord.*Fix: leave chunk out",
            ("chunk", "record_format"),
        ),
        ({"chunk": "x:8,y:8"}, ConfigError, r"chunk 'x:8,y:8': needs a positive size for x, y and z\. Fix", ("chunk",)),
        ({"chunk": 0}, ConfigError, "chunk '0': needs a positive size", ("chunk",)),
        ({"chunk": "8x8x8"}, ConfigError, "chunk '8x8x8': needs a positive size", ("chunk",)),
    ],
)
def test_mistakes_are_refused_at_once(lits_dir, out, options, error, text, settings):
    with pytest.raises(error, match=text) as raised:
        convert(lits_dir, out, **OPTIONS, **options)
    assert raised.value.settings == settings
    assert not out.exists()


def test_a_manifest_with_an_unknown_format_is_refused(lits_dir, out):
    convert(lits_dir, out, **OPTIONS)
    fields = json.loads((out / "dataset.json").read_text())
    (out / "dataset.json").write_text(json.dumps(fields | {"record_format": "png"}))
    with pytest.raises(DataError, match=r"dataset\.json: not a manifest of records .*record_format 'png' is unknown"):
        read_manifest(out)
