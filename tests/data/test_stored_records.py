"""Tests records on disk: reading by region, writing in slabs, and damage."""

import dataclasses
import json
import pathlib
import signal
import time

import numpy as np
import pytest

from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.records.digesting_store import DigestingStore
from mtf_imaging.data.records.record_writer import RecordWriter
from mtf_imaging.data.records.stored import StoredRecord
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import DataError, ShapeError
from mtf_imaging.files.partial import remove
from tests.records import Record, in_memory, read_record, write_record

GRID, CHUNK = (7, 9, 12), (4, 4, 5)
NAME = "case-2.ome.zarr"


def make(num_channels=None, seed=0):
    """Returns a record of `GRID` with random voxels and an oblique affine."""
    rng = np.random.default_rng(seed)
    affine = np.eye(4)
    affine[:3] = rng.normal(size=(3, 4))
    return Record(
        key="2",
        affine=affine,
        shape=(20, 30, 40),
        spacing=(0.1, 0.7, 1.3),
        sampled_at=None if num_channels is None else (0.3, 2.0, 1 / 3),
        axis_codes="LPS",
        source="digest of the files",
        statistics=tuple(
            ChannelStatistics(*rng.normal(size=len(dataclasses.fields(ChannelStatistics))).tolist())
            for _ in range(num_channels or 0)
        ),
        image=rng.integers(-1024, 3000, GRID, np.int16)
        if num_channels is None
        else rng.normal(size=(*GRID, num_channels)).astype(np.float32),
        labels=rng.integers(0, 3, GRID, np.uint8),
    )


def assert_same(one, other):
    for field in dataclasses.fields(Record):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    assert (one.image.dtype, one.labels.dtype) == (other.image.dtype, other.labels.dtype)


@pytest.mark.parametrize("num_channels", [None, 1, 3])
def test_a_stored_record_has_the_facts_and_the_regions_of_the_record(tmp_path, num_channels):
    record = make(num_channels)
    write_record(tmp_path / NAME, record, CHUNK)
    stored = StoredRecord(tmp_path / NAME, Sampling(GRID, record.sampled_at))
    assert (stored.grid, stored.num_channels, stored.has_hu) == (GRID, num_channels or 1, num_channels is None)
    assert stored.chunk == CHUNK
    for field in dataclasses.fields(record.facts):
        np.testing.assert_array_equal(getattr(stored.facts, field.name), getattr(record, field.name))
    for region in (np.s_[:, :, :], np.s_[2:6, 0:9, 11:12], np.s_[-3:, :4, 4:6], np.s_[3:3, :, :]):
        for part, whole in ((stored.image(region), record.image), (stored.labels(region), record.labels)):
            np.testing.assert_array_equal(part, whole[region])
            assert part.dtype == whole.dtype
    assert_same(in_memory(stored), record)
    stored.check()


def test_only_the_chunks_of_a_region_are_read(tmp_path):
    write_record(tmp_path / NAME, make(), CHUNK)
    stored = StoredRecord(tmp_path / NAME)
    assert stored.bytes_read == 0
    stored.image(np.s_[3:5, 0:4, 9:10])
    chunks = [tmp_path / NAME / "0" / "c" / at for at in ("1/0/0", "1/0/1")]  # z/y/x
    assert stored.bytes_read == sum(chunk.stat().st_size for chunk in chunks)
    before = stored.bytes_read
    stored.labels(np.s_[0:1, 8:9, 0:12])
    chunks = [tmp_path / NAME / "labels" / "segmentation" / "0" / "c" / f"{z}/2/0" for z in range(3)]
    assert stored.bytes_read - before == sum(chunk.stat().st_size for chunk in chunks)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("thickness", [1, 3, 5, 12])
@pytest.mark.parametrize("order", [1, -1])
def test_slabs_of_any_thickness_and_order_give_the_same_record(tmp_path, axis, thickness, order):
    record, labels_axis = make(2), (axis + 1) % 3
    with RecordWriter(tmp_path / NAME, grid=GRID, num_channels=2, chunk=CHUNK) as writer:
        for start in range(0, GRID[axis], thickness)[::order]:
            writer.write_image(np.take(record.image, range(GRID[axis])[start : start + thickness], axis), start, axis)
        for start in range(0, GRID[labels_axis], thickness)[::order]:
            planes = range(GRID[labels_axis])[start : start + thickness]
            writer.write_labels(np.take(record.labels, planes, labels_axis), start, labels_axis)
        writer.finish(record.facts)
    assert_same(read_record(tmp_path / NAME), record)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def write_parts(path, record, images, labels, finish=True):
    """Writes slabs along x, given as a list of (slab, start)."""
    with RecordWriter(path, grid=GRID, chunk=CHUNK) as writer:
        for slab, start in images:
            writer.write_image(slab, start)
        for slab, start in labels:
            writer.write_labels(slab, start)
        if finish:
            writer.finish(record.facts)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (lambda r: ([(r.image, 0)], [(r.labels[:-1], 0)]), "case-2.*: planes of the record are missing"),
        (lambda r: ([(r.image, 0)], [(r.labels, 0)], False), "case-2.*: the record was not finished"),
        (lambda r: ([(r.image[:4], 0), (r.image[3:], 3)], []), "some of the planes 3 to 6 along x were written before"),
        (lambda r: ([(r.image, 0), (r.image[:2], 0)], []), "some of the planes 0 to 1 along x were written before"),
        (
            lambda r: ([(r.image[:, 1:], 0)], []),
            r"a slab of shape \(7, 8, 12\) and type int16 at 0 along x is not part",
        ),
        (lambda r: ([(r.image, 1)], []), r"at 1 along x is not part of a volume of shape \(7, 9, 12\) and type int16"),
        (lambda r: ([(r.labels, 0)], []), "type uint8"),
    ],
)
def test_an_incomplete_record_is_not_written(tmp_path, parts, text):
    record = make()
    write_record(tmp_path / NAME, record)
    with pytest.raises(ShapeError, match=text):
        write_parts(tmp_path / NAME, make(seed=1), *parts(make(seed=1)))
    assert_same(read_record(tmp_path / NAME), record)
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


CHUNK_1, CHUNK_2 = "0/c/0/0/0", "0/c/1/0/0"


def change_bit(data):
    return data[:-3] + bytes([data[-3] ^ 4]) + data[-2:]


def cut(data):
    return data[:-1]


def empty(data):
    return b""


@pytest.mark.parametrize("file", [CHUNK_1, "labels/segmentation/0/c/2/2/1"])
@pytest.mark.parametrize("change", [change_bit, cut, empty, None, "folder"])
def test_a_damaged_chunk_is_an_error_that_names_file_and_case(tmp_path, file, change):
    path = tmp_path / NAME
    write_record(path, make(), CHUNK)
    stored, whole = StoredRecord(path), (path / file).read_bytes()
    if callable(change):
        (path / file).write_bytes(change(whole))
    else:
        (path / file).unlink()
    if change == "folder":
        (path / file).mkdir()
    what = "damaged: its digest does not match" if callable(change) else "missing"
    for read in (stored.check, lambda: in_memory(stored), lambda: read_record(path), StoredRecord(path).check):
        with pytest.raises(DataError) as error:
            read()
        assert str(error.value) == (
            f"{path}/{file}: this chunk of the record of case '2' is {what}. "
            "Fix: run convert again; it replaces damaged records."
        )
    remove(path / file)
    (path / file).write_bytes(whole)
    stored.check()


def test_other_chunks_than_the_damaged_one_are_read(tmp_path):
    record, path = make(), tmp_path / NAME
    write_record(path, record, CHUNK)
    (path / CHUNK_1).unlink()
    np.testing.assert_array_equal(StoredRecord(path).image(np.s_[4:7, 4:9, 5:12]), record.image[4:7, 4:9, 5:12])
    with pytest.raises(DataError, match="missing"):
        StoredRecord(path).image(np.s_[3:7, 3:9, 4:12])


@pytest.mark.parametrize("other", ["a chunk of the same record", "the same chunk of another record"])
def test_swapped_chunks_are_refused(tmp_path, other):
    path, second = tmp_path / NAME, tmp_path / "case-3.ome.zarr"
    write_record(path, make(), CHUNK)
    write_record(second, make(seed=1), CHUNK)
    one, two = path / CHUNK_1, path / CHUNK_2 if other.endswith("same record") else second / CHUNK_1
    assert one.read_bytes() != two.read_bytes()
    one.write_bytes(two.read_bytes())
    with pytest.raises(DataError, match=rf"{CHUNK_1}: this chunk of the record of case '2' is damaged"):
        read_record(path)


METADATA = ("zarr.json", "0/zarr.json", "labels/zarr.json", "labels/segmentation/zarr.json")


@pytest.mark.parametrize("file", [*METADATA, "labels/segmentation/0/zarr.json"])
def test_damaged_metadata_are_an_error(tmp_path, file):
    path = tmp_path / NAME
    write_record(path, make(), CHUNK)
    whole = (path / file).read_text()
    fields = json.loads(whole)
    changed = fields | {"attributes": fields["attributes"] | {"note": "changed by another program"}}
    of_other_version = fields | {"zarr_format": 2}
    for text in (json.dumps(changed), json.dumps(of_other_version), whole[:-20], "", None):
        (path / file).unlink() if text is None else (path / file).write_text(text)
        with pytest.raises(DataError, match=rf"^{path}.*Fix: run convert again"):
            StoredRecord(path).check()
    (path / file).write_text(whole)
    StoredRecord(path).check()


def test_what_is_not_a_record_is_an_error(tmp_path):
    path = tmp_path / NAME
    with pytest.raises(DataError, match=rf"{path}: this record does not exist\. Fix: run convert again; it adds"):
        StoredRecord(path)
    path.write_bytes(b"a file")
    with pytest.raises(DataError, match=rf"{path}: this record has no zarr\.json\. Fix: run convert again"):
        StoredRecord(path)
    path.unlink()
    path.mkdir()
    for text in ("{}", "[]", '{"attributes": {}}', '{"attributes": {"mtf_imaging": {"affine": 1}}}'):
        (path / "zarr.json").write_text(text)
        with pytest.raises(DataError) as error:
            StoredRecord(path)
        assert str(error.value) == (
            f"{path}: not a record of this program, or its zarr.json is damaged. "
            "Fix: run convert again; it replaces damaged records."
        )
    write_record(path, make())
    with pytest.raises(DataError, match=r"this record has resolution x:7,y:9,z:12, not x:7,y:9,z:11\. Fix"):
        StoredRecord(path, Sampling((7, 9, 11)))


def test_a_disk_that_returns_other_bytes_is_reported(tmp_path, monkeypatch):
    path = tmp_path / NAME
    write_record(path, make(), CHUNK)

    write = pathlib.Path.write_bytes
    monkeypatch.setattr(
        pathlib.Path, "write_bytes", lambda self, data: write(self, change_bit(data) if CHUNK_2 in str(self) else data)
    )
    with pytest.raises(DataError, match=rf"{path}/{CHUNK_2}: the bytes on disk differ from those written\. Fix: check"):
        write_record(path, make(seed=1), CHUNK)
    assert_same(read_record(path), make())
    assert [path.name for path in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupted_record_is_deleted_and_nothing_more_is_written(tmp_path, monkeypatch, times):
    """A second Ctrl-C arrives while the first one waits for the threads that write."""
    write, chunks = DigestingStore.write, []

    def interrupt(self, key, data):
        if "/c/" in key:
            chunks.append(key)
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.05)
        write(self, key, data)

    monkeypatch.setattr(DigestingStore, "write", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            write_record(tmp_path / NAME, make(), (2, 2, 2))
        num_chunks = len(chunks)
    finally:
        signal.signal(signal.SIGINT, before)
    time.sleep(0.2)
    assert 0 < len(chunks) == num_chunks < 4 * 5 * 6
    assert not [*tmp_path.iterdir()]


def test_chunks_of_zeros_are_files(tmp_path):
    record = dataclasses.replace(make(), image=np.zeros(GRID, np.int16), labels=np.zeros(GRID, np.uint8))
    write_record(tmp_path / NAME, record, CHUNK)
    assert len(list(tmp_path.glob("*/0/c/*/*/*"))) == 3 * 3 * 2
    assert len(list(tmp_path.glob("*/labels/segmentation/0/c/*/*/*"))) == 3 * 3 * 2
    assert_same(read_record(tmp_path / NAME), record)


@pytest.mark.parametrize(("chunk", "expected"), [(None, GRID), ((64, 4, 5), (7, 4, 5))])
def test_chunks_are_not_larger_than_the_grid(tmp_path, chunk, expected):
    write_record(tmp_path / NAME, make(), chunk)
    assert StoredRecord(tmp_path / NAME).chunk == expected


def test_a_chunk_may_be_a_single_voxel(tmp_path):
    record = make()
    small = dataclasses.replace(record, image=record.image[:3, :2, :2], labels=record.labels[:3, :2, :2])
    write_record(tmp_path / NAME, small, (1, 1, 1))
    assert StoredRecord(tmp_path / NAME).chunk == (1, 1, 1)
    assert_same(read_record(tmp_path / NAME), small)
