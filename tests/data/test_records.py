import dataclasses

import numpy as np
import pytest

from mtf_imaging.data.cases import find_cases
from mtf_imaging.data.convert import convert, make_record
from mtf_imaging.data.manifest import Manifest, open_records, read_manifest, record_path
from mtf_imaging.data.nifti import read_labels, read_volume
from mtf_imaging.data.records import read_record, write_record
from mtf_imaging.data.resample import resample_linear, resample_nearest
from mtf_imaging.data.sampling import Sampling, whole_field
from mtf_imaging.errors import DataError


@pytest.fixture
def record(lits_dir):
    return make_record(find_cases(lits_dir)[0], Sampling((4, 5, 6)))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_record_comes_back_as_it_was(tmp_path, record):
    write_record(tmp_path / "r", record)
    back = read_record(tmp_path / "r", Sampling((4, 5, 6)))
    for field in dataclasses.fields(record):
        np.testing.assert_array_equal(getattr(back, field.name), getattr(record, field.name))
    assert back.hu.dtype == np.int16
    assert back.labels.dtype == np.uint8


def test_damaged_records_are_named(tmp_path, record):
    path = tmp_path / "case-2.tfrecord"
    write_record(path, record)
    whole = path.read_bytes()
    damages = {
        "truncated": whole[:-20],
        "empty": b"",
        "flipped": whole[:200] + bytes([whole[200] ^ 1]) + whole[201:],
        "other": b"something else entirely, long enough for a header" * 3,
    }
    for data in damages.values():
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"case-2\.tfrecord: truncated, corrupt or no record"):
            read_record(path)
    with pytest.raises(DataError, match="there is no such record"):
        read_record(tmp_path / "missing")


def test_records_of_another_kind_or_resolution(tmp_path, record):
    import tensorflow as tf

    path = tmp_path / "case-2.tfrecord"
    for payload in (tf.train.Example().SerializeToString(), b"\xff\xff\xff"):
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(payload)
        with pytest.raises(DataError, match="no record of this program"):
            read_record(path)
    write_record(path, record)
    with pytest.raises(DataError, match=r"resolution x:4,y:5,z:6, asked for was x:8,y:8,z:8"):
        read_record(path, Sampling((8, 8, 8)))


def test_conversion_resamples_each_case_on_canonical_axes(tmp_path, lits_dir, capsys):
    assert convert(lits_dir, tmp_path / "out", "x:4,y:5,z:3") == ["2", "9", "10"]
    assert names(tmp_path / "out") == ["case-10.tfrecord", "case-2.tfrecord", "case-9.tfrecord", "dataset.json"]
    assert open_records(tmp_path / "out", (4, 5, 3)) == Manifest(Sampling((4, 5, 3)), ["2", "9", "10"])
    for case in find_cases(lits_dir):
        volume = read_volume(case.volume)
        record = read_record(record_path(tmp_path / "out", case.key))
        spans, labels = whole_field(volume.hu.shape, (4, 5, 3)), read_labels(case.labels, volume)
        np.testing.assert_array_equal(record.hu, resample_linear(volume.hu, spans).round())
        np.testing.assert_array_equal(record.labels, resample_nearest(labels, spans))
        assert (record.shape, record.spacing) == (volume.hu.shape, (1.5, 2.0, 3.0))
        np.testing.assert_allclose(record.affine, volume.geometry.canonical_affine)
    out = capsys.readouterr().out
    assert "stored LPS -> x, y, z = R, A, S: 1 (9)" in out
    assert "stored SAL -> x, y, z = R, A, S: 1 (10)" in out


def test_a_stopped_conversion_goes_on(tmp_path, lits_dir, monkeypatch, capsys):
    out = tmp_path / "out"
    convert(lits_dir, out, 4, progress=False)
    expected = {name: (out / name).read_bytes() for name in names(out)}
    (out / "dataset.json").unlink()
    (out / "case-9.tfrecord").unlink()
    (out / "case-10.tfrecord").write_bytes(b"half")
    with pytest.raises(DataError, match=r"holds records but no dataset\.json: its conversion was not finished"):
        open_records(out)
    made = []
    monkeypatch.setattr(
        "mtf_imaging.data.convert.make_record", lambda case, how: made.append(case.key) or make_record(case, how)
    )
    convert(lits_dir, out, 4)
    assert made == ["9", "10"]
    assert "3 cases in" in capsys.readouterr().out
    assert {name: (out / name).read_bytes() for name in names(out)} == expected


def test_a_bad_case_leaves_no_manifest_and_no_half_record(tmp_path, lits_dir):
    volume = lits_dir / "volume-9.nii.gz"
    volume.write_bytes(volume.read_bytes()[:200])
    with pytest.raises(DataError, match=r"volume-9\.nii\.gz: cannot be read"):
        convert(lits_dir, tmp_path / "out", 4, progress=False)
    assert names(tmp_path / "out") == ["case-2.tfrecord"]


def test_folders_of_another_run_are_refused(tmp_path, lits_dir, store, arrays):
    out = tmp_path / "out"
    convert(lits_dir, out, 4, progress=False)
    before = {name: (out / name).read_bytes() for name in names(out)}
    with pytest.raises(DataError, match=r"holds records of resolution x:4,y:4,z:4, asked for was x:8,y:8,z:8"):
        convert(lits_dir, out, 8, progress=False)
    manifest = (out / "dataset.json").read_bytes()
    (out / "dataset.json").unlink()
    with pytest.raises(DataError, match=r"is a record of resolution x:4,y:4,z:4, asked for was x:8,y:8,z:8"):
        convert(lits_dir, out, 8, progress=False)
    (out / "dataset.json").write_bytes(manifest)
    original = (lits_dir / "segmentation-9.nii").read_bytes()
    store(lits_dir / "segmentation-9.nii", arrays(5, (7, 6, 5))[1], "LPS")
    with pytest.raises(DataError, match=r"case-9\.tfrecord: is a record made from other files"):
        convert(lits_dir, out, 4, progress=False)
    (lits_dir / "segmentation-9.nii").write_bytes(original)
    (lits_dir / "segmentation-10.nii").unlink()
    (lits_dir / "volume-10.nii.gz").unlink()
    with pytest.raises(DataError, match=r"holds 1 record\(s\) of cases that .* such as case-10\.tfrecord"):
        convert(lits_dir, out, 4, progress=False)
    assert {name: (out / name).read_bytes() for name in names(out)} == before


def test_folders_that_are_no_records(tmp_path, lits_dir):
    with pytest.raises(DataError, match="does not exist"):
        open_records(tmp_path / "missing")
    with pytest.raises(DataError, match="holds no records"):
        open_records(lits_dir)
    out = tmp_path / "out"
    convert(lits_dir, out, 4, progress=False)
    with pytest.raises(DataError, match=r"resolution x:4,y:4,z:4, asked for was x:16,y:16,z:16.*Fix"):
        open_records(out, (16, 16, 16))
    (out / "case-9.tfrecord").unlink()
    with pytest.raises(DataError, match=r"case-9\.tfrecord: named in dataset\.json but missing"):
        open_records(out)
    (out / "dataset.json").write_text('{"format": 99, "cases": []}')
    with pytest.raises(DataError, match="records of format 99, this program reads formats up to 2"):
        read_manifest(out)
    (out / "dataset.json").write_text('{"format": 1')
    with pytest.raises(DataError, match=r"dataset\.json: is no manifest of records"):
        read_manifest(out)
