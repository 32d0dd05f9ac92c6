"""Regions of a resampled volume equal the same voxels of the whole result, and read each plane once."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtf_imaging.data.sampling import slabs
from mtf_imaging.data.sampling.grid import whole_region
from mtf_imaging.data.sampling.regions import PlaneOrder, moved, region_shape
from mtf_imaging.data.sampling.sampling import Sampling, Span, whole_field
from mtf_imaging.data.sampling.slabs import linear_slabs, source_region
from tests.data.resampling import (
    resample_linear,
    resample_linear_region,
    resample_nearest,
    resample_nearest_region,
)

sizes = st.tuples(*[st.integers(1, 12)] * 3)
spans_1d = st.builds(Span, st.floats(-9, 9), st.floats(0.5, 30), st.integers(1, 12))
ORDERS = [PlaneOrder(axis, ascending) for axis in range(3) for ascending in (True, False)]
SHAPE = (9, 14, 11)
GRIDS = {  # number of voxels along x, y, z, and the spacing at voxels of 1 mm
    "shrinks": ((4, 4, 4), None),
    "grows": ((17, 20, 15), None),
    "mixed": ((4, 20, 11), None),
    "same": (SHAPE, None),
    "padded and cropped": ((12, 6, 15), (1.0, 1.0, 1.0)),
    "padded, finer": ((30, 12, 40), (0.5, 0.7, 0.4)),
    "cropped, coarser": ((3, 4, 2), (2.0, 1.9, 2.3)),
}


class Source:
    """A volume that records which regions are read."""

    def __init__(self, data):
        self.data, self.reads = data, []

    def __call__(self, region):
        self.reads.append(region)
        part = self.data[region].view()
        part.flags.writeable = False  # a source may return its own buffer
        assert part.shape == region_shape(region)
        return part


def volume(dtype, shape=SHAPE):
    return np.random.default_rng(0).integers(0, 250, shape).astype(dtype)


def halves(grid):
    """Returns the eight regions of a grid that is cut once along each axis, at uneven positions."""
    cuts = [(slice(0, n // 3), slice(n // 3, n)) for n in grid]
    return list(itertools.product(*cuts))


@pytest.mark.mostly_slow(fast=0.2)
@pytest.mark.parametrize("slab_bytes", [1, 3000, 1 << 25])
@pytest.mark.parametrize(("grid", "spacing"), GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_a_region_equals_the_whole(order, grid, spacing, slab_bytes, monkeypatch):
    monkeypatch.setattr(slabs, "_SLAB_BYTES", slab_bytes)
    spans = Sampling(grid, spacing).spans(SHAPE, (1.0, 1.0, 1.0))
    for dtype in (np.int16, np.float32):
        source = Source(volume(dtype))
        whole = resample_linear(source.data, spans, -1024)
        for region in (whole_region(grid), *halves(grid)):
            result = resample_linear_region(source, SHAPE, spans, region, -1024, order)
            assert result.dtype == np.float32
            np.testing.assert_array_equal(result, whole[region])
    source = Source(volume(np.uint8))
    whole = resample_nearest(source.data, spans, 7)
    for region in (whole_region(grid), *halves(grid)):
        result = resample_nearest_region(source, SHAPE, spans, region, 7, order)
        assert result.dtype == np.uint8
        np.testing.assert_array_equal(result, whole[region])


@given(sizes, st.tuples(spans_1d, spans_1d, spans_1d), st.data())
@settings(deadline=None)
def test_any_region_of_any_spans_equals_the_whole(shape, spans, data):
    region = []
    for span in spans:
        start = data.draw(st.integers(0, span.size - 1))
        region.append(slice(start, data.draw(st.integers(start + 1, span.size))))
    source = Source(volume(np.int16, shape))
    result = resample_linear_region(source, shape, spans, tuple(region), -5)
    np.testing.assert_array_equal(result, resample_linear(source.data, spans, -5)[tuple(region)])
    labels = Source(volume(np.uint8, shape))
    result = resample_nearest_region(labels, shape, spans, tuple(region))
    np.testing.assert_array_equal(result, resample_nearest(labels.data, spans)[tuple(region)])


@pytest.mark.parametrize(("grid", "spacing"), GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_planes_are_read_once_in_order_and_within_the_source_region(order, grid, spacing, monkeypatch):
    monkeypatch.setattr(slabs, "_SLAB_BYTES", 1500)
    spans = Sampling(grid, spacing).spans(SHAPE, (1.0, 1.0, 1.0))
    for region in (whole_region(grid), *halves(grid)):
        source = Source(volume(np.int16))
        parts = [slab for slab, _ in linear_slabs(source, SHAPE, spans, region, order=order)]
        positions = [slab[order.axis].start for slab in parts]
        assert positions == sorted(positions, reverse=not order.ascending)
        allowed = source_region(SHAPE, spans, region)
        planes = []
        for read in source.reads:
            inside = moved(read, allowed)
            assert all(0 <= at.start < at.stop for at in inside)
            assert all(at.stop <= n for at, n in zip(inside, region_shape(allowed), strict=True))
            along = range(read[order.axis].start, read[order.axis].stop)
            planes += along if order.ascending else along[::-1]
        assert planes == sorted(set(planes), reverse=not order.ascending)


def test_a_region_beyond_the_volume_reads_nothing():
    spans = Sampling((20, 4, 4), (1.0, 1.0, 1.0)).spans((4, 4, 4), (1.0, 1.0, 1.0))
    region = (slice(0, 8), slice(0, 4), slice(0, 4))
    assert source_region((4, 4, 4), spans, region) == (slice(0, 0),) * 3
    source = Source(volume(np.int16, (4, 4, 4)))
    assert (resample_linear_region(source, (4, 4, 4), spans, region, -1024) == -1024).all()
    assert not source.reads


def test_the_source_region_has_no_voxel_without_weight():
    """Changing any voxel within the source region changes the result; changing the others does not."""
    spans, region = whole_field((8, 10, 6), (4, 4, 4)), (slice(1, 2), slice(0, 2), slice(2, 3))
    at = source_region((8, 10, 6), spans, region)
    data = volume(np.float32, (8, 10, 6))
    expected = resample_linear_region(data.__getitem__, data.shape, spans, region)
    for index in np.ndindex(data.shape):
        changed = data.copy()
        changed[index] += 1000
        result = resample_linear(changed, spans)[region]
        needed = all(s.start <= i < s.stop for s, i in zip(at, index, strict=True))
        assert (result != expected).any() == needed, index
