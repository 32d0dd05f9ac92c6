"""Regions of arrays that move between processes, and predictions of which each process computes a slice."""

import itertools

import numpy as np
import pytest

from mtf_imaging.engine.layout import Layout
from mtf_imaging.engine.layout.regions import mirrored, whole_region
from tests.between import checks

SIZES = (7, 5, 3)
# The first and last index of the regions of four processes along x and y.
HALVES = [(slice(0, 4), slice(4, 7)), (slice(0, 3), slice(3, 5))]
GRID = [(x, y, slice(0, 3)) for x, y in itertools.product(*HALVES)]
ROWS = [(x, slice(0, 5), slice(0, 3)) for x in (slice(0, 2), slice(2, 4), slice(4, 6), slice(6, 7))]
EMPTY = (slice(7, 7), slice(0, 5), slice(0, 3))
THIRDS = [(x, slice(0, 5), slice(0, 3)) for x in (slice(0, 3), slice(3, 6), slice(6, 7))] + [EMPTY]
TWICE = [(x, slice(0, 5), slice(0, 3)) for x in HALVES[0] for _ in range(2)]
WHOLE = whole_region(SIZES)


def widened(regions):
    return [
        tuple(slice(max(p.start - 1, 0), min(p.stop + 2, n)) for p, n in zip(region, SIZES, strict=True))
        for region in regions
    ]


MOVES = {
    "halos": (GRID, widened(GRID)),
    "flips of uneven slices": (ROWS, [mirrored(region, SIZES, [0, 1]) for region in ROWS]),
    "slices that are empty": (THIRDS, [mirrored(region, SIZES, [0]) for region in THIRDS]),
    "a slab for process 0": (GRID, [(slice(1, 6), slice(0, 5), slice(1, 3)), *[EMPTY] * 3]),
    "several processes with one region": (TWICE, GRID),
    "everything for everyone": (ROWS, [WHOLE] * 4),
    "nothing": (ROWS, [EMPTY] * 4),
}

IN_TURNS = Layout.parse("slabs:4,rows:4", "x:slabs,y:rows", "slabs")


@pytest.mark.parametrize(("dtype", "message_bytes"), [("float32", 1 << 20), ("uint8", 8), ("float64", 100)])
@pytest.mark.parametrize("name", MOVES)
def test_each_process_receives_the_region_that_it_wants(groups, name, dtype, message_bytes):
    have, want = MOVES[name]
    expected = checks.message_value(1, SIZES).astype(dtype)
    results = groups.get(4).run(checks.moved, SIZES, have, want, dtype, message_bytes)
    for region, result in zip(want, results, strict=True):
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, expected[region])


@pytest.mark.parametrize(
    ("sizes", "flips", "mesh", "layout"),
    [
        ((16, 8, 8), ("x", "y"), "rows:2,cols:2", "x:rows,y:cols"),
        pytest.param((16, 8, 8), ("z",), "rows:4", "z:rows", marks=pytest.mark.slow),
        pytest.param((9, 14, 8), ("x", "y"), "rows:4", "x:rows", marks=pytest.mark.slow),  # the last slice is empty
        pytest.param((16, 8, 8), (), "rows:2", "y:rows", marks=pytest.mark.slow),  # two processes with one slice
        pytest.param((14, 8, 8), ("x",), "", IN_TURNS, marks=pytest.mark.slow),
        pytest.param((16, 8, 8), ("x",), "rows:2,cores:2", "x:rows,batch:cores", marks=pytest.mark.slow),
    ],
)
def test_predictions_by_slices_equal_those_of_whole_images(groups, sizes, flips, mesh, layout):
    results = groups.get(4).run(checks.predicted, sizes, flips, mesh, layout)
    covered = np.zeros((*sizes, 3), bool)
    for own, slices, whole, regions in results:
        np.testing.assert_array_equal(slices, whole[regions[own]])
        np.testing.assert_array_equal(whole, results[0][2])
        covered[regions[own]] = True
    assert covered.all()
    assert [own for own, *_ in results] == [0, 1, 2, 3]
