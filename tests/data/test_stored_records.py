"""Tests records on disk: reading by region, writing in slabs, and damage."""

import dataclasses

import numpy as np
import pytest

from mtf_imaging.data.intensities import ChannelStatistics
from mtf_imaging.data.records.record import Record
from mtf_imaging.data.records.stored import create_record, open_record, read_record, write_record
from mtf_imaging.data.sampling.sampling import Sampling
from mtf_imaging.errors import ShapeError

GRID, CHUNK = (7, 9, 12), (4, 4, 5)
NAMES = ("case-2.ome.zarr", "case-2.tfrecord")


def make(num_channels=None, seed=0):
    """Returns a record of `GRID` with random voxels and an oblique affine."""
    rng = np.random.default_rng(seed)
    affine = np.eye(4)
    affine[:3] = rng.normal(size=(3, 4))
    return Record(
        key="2",
        hu=rng.integers(-1024, 3000, GRID, np.int16) if num_channels is None else None,
        labels=rng.integers(0, 3, GRID, np.uint8),
        affine=affine,
        shape=(20, 30, 40),
        spacing=(0.1, 0.7, 1.3),
        sampled_at=None if num_channels is None else (0.3, 2.0, 1 / 3),
        axis_codes="LPS",
        source="digest of the files",
        values=None if num_channels is None else rng.normal(size=(*GRID, num_channels)).astype(np.float32),
        statistics=tuple(
            ChannelStatistics(*rng.normal(size=len(dataclasses.fields(ChannelStatistics))).tolist())
            for _ in range(num_channels or 0)
        ),
    )


def assert_same(one, other):
    for field in dataclasses.fields(Record):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    assert (one.image.dtype, one.labels.dtype) == (other.image.dtype, other.labels.dtype)


@pytest.mark.parametrize("num_channels", [None, 1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_a_stored_record_has_the_facts_and_the_regions_of_the_record(tmp_path, name, num_channels):
    record = make(num_channels)
    write_record(tmp_path / name, record, CHUNK)
    stored = open_record(tmp_path / name, Sampling(GRID, record.sampled_at))
    assert (stored.grid, stored.num_channels, stored.has_hu) == (GRID, num_channels or 1, num_channels is None)
    assert stored.chunk == (CHUNK if name.endswith("zarr") else None)
    for field in dataclasses.fields(record.facts):
        np.testing.assert_array_equal(getattr(stored, field.name), getattr(record, field.name))
    for region in (np.s_[:, :, :], np.s_[2:6, 0:9, 11:12], np.s_[-3:, :4, 4:6], np.s_[3:3, :, :]):
        for part, whole in ((stored.image(region), record.image), (stored.labels(region), record.labels)):
            np.testing.assert_array_equal(part, whole[region])
            assert part.dtype == whole.dtype
    assert_same(stored.read(), record)
    stored.check()


def test_only_the_chunks_of_a_region_are_read(tmp_path):
    write_record(tmp_path / NAMES[0], make(), CHUNK)
    stored = open_record(tmp_path / NAMES[0])
    assert stored.bytes_read == 0
    stored.image(np.s_[3:5, 0:4, 9:10])
    chunks = [tmp_path / NAMES[0] / "0" / "c" / at for at in ("1/0/0", "1/0/1")]  # z/y/x
    assert stored.bytes_read == sum(chunk.stat().st_size for chunk in chunks)
    before = stored.bytes_read
    stored.labels(np.s_[0:1, 8:9, 0:12])
    chunks = [tmp_path / NAMES[0] / "labels" / "segmentation" / "0" / "c" / f"{z}/2/0" for z in range(3)]
    assert stored.bytes_read - before == sum(chunk.stat().st_size for chunk in chunks)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("thickness", [1, 3, 5, 12])
@pytest.mark.parametrize("order", [1, -1])
def test_slabs_of_any_thickness_and_order_give_the_same_record(tmp_path, name, axis, thickness, order):
    record, labels_axis = make(2), (axis + 1) % 3
    with create_record(tmp_path / name, grid=GRID, num_channels=2, chunk=CHUNK) as writer:
        for start in range(0, GRID[axis], thickness)[::order]:
            writer.write_image(np.take(record.values, range(GRID[axis])[start : start + thickness], axis), start, axis)
        for start in range(0, GRID[labels_axis], thickness)[::order]:
            planes = range(GRID[labels_axis])[start : start + thickness]
            writer.write_labels(np.take(record.labels, planes, labels_axis), start, labels_axis)
        writer.finish(record.facts)
    assert_same(read_record(tmp_path / name), record)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def write_parts(path, record, images, labels, finish=True):
    """Writes slabs along x, given as a list of (slab, start)."""
    with create_record(path, grid=GRID, chunk=CHUNK) as writer:
        for slab, start in images:
            writer.write_image(slab, start)
        for slab, start in labels:
            writer.write_labels(slab, start)
        if finish:
            writer.finish(record.facts)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (lambda r: ([(r.hu, 0)], [(r.labels[:-1], 0)]), "case-2.*: planes of the record are missing"),
        (lambda r: ([(r.hu, 0)], [(r.labels, 0)], False), "case-2.*: the record was not finished"),
        (lambda r: ([(r.hu[:4], 0), (r.hu[3:], 3)], []), "some of the planes 3 to 6 along x were written before"),
        (lambda r: ([(r.hu, 0), (r.hu[:2], 0)], []), "some of the planes 0 to 1 along x were written before"),
        (lambda r: ([(r.hu[:, 1:], 0)], []), r"a slab of shape \(7, 8, 12\) and type int16 at 0 along x is not part"),
        (lambda r: ([(r.hu, 1)], []), r"at 1 along x is not part of a volume of shape \(7, 9, 12\) and type int16"),
        (lambda r: ([(r.labels, 0)], []), "type uint8"),
    ],
)
def test_an_incomplete_record_is_not_written(tmp_path, name, parts, text):
    record = make()
    write_record(tmp_path / name, record)
    with pytest.raises(ShapeError, match=text):
        write_parts(tmp_path / name, make(seed=1), *parts(make(seed=1)))
    assert_same(read_record(tmp_path / name), record)
    assert [path.name for path in tmp_path.iterdir()] == [name]
