"""Programs on a mesh of several processes: inputs, outputs, regions, variables, random numbers and micro-batches."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.engine.layout import Layout
from tests.between import checks
from tests.between.comparison import assert_same
from tests.between.messages import check_exchange

DTYPES = ("bool", "uint8", "int32", "int64", "uint32", "uint64", "bfloat16", "float16", "float32", "float64")
FEW_DTYPES = ("bool", "uint64", "bfloat16")
# x:7,y:5 over several processes: even and uneven slices, several processors per process, and replicated meshes.
AT_ONCE = [
    (4, "rows:4,cols:2", "x:rows,y:cols"),
    (4, "rows:2", "x:rows"),
    pytest.param(4, "cols:2,rows:8", "x:rows,y:cols", marks=pytest.mark.slow),
    pytest.param(2, "rows:6", "x:rows", marks=pytest.mark.slow),
    pytest.param(3, "rows:3,cols:2", "x:rows,y:cols", marks=pytest.mark.slow),
    pytest.param(8, "rows:4,cols:2", "y:rows,x:cols", marks=pytest.mark.slow),
]
# An odd number of turns, an even number that compute the same twice, and processes that compute the same.
IN_TURNS = [
    pytest.param(2, "", Layout.parse("slabs:3,rows:4", "x:slabs,y:rows", "slabs"), id="2 processes in 3 turns"),
    pytest.param(
        2,
        "",
        Layout.parse("slabs:2,cols:2,same:2", "x:slabs,y:cols", "slabs,same"),
        id="2 processes in 2x2 turns",
        marks=pytest.mark.slow,
    ),
    pytest.param(2, "", Layout.parse("slabs:4", "x:slabs", "slabs"), id="2 processes in the same 4 turns"),
]
all_meshes = pytest.mark.parametrize(("num", "mesh", "layout"), AT_ONCE + IN_TURNS)


@all_meshes
def test_variables(groups, num, mesh, layout):
    assert_same(groups.get(num), 1e-13, checks.variables, mesh, layout)


@pytest.mark.slow
@all_meshes
def test_random_numbers_do_not_depend_on_the_layout(groups, num, mesh, layout):
    assert_same(groups.get(num), 1e-13, checks.random_numbers, mesh, layout)


@pytest.mark.slow
@all_meshes
def test_random_numbers_of_loops_do_not_depend_on_the_layout(groups, num, mesh, layout):
    assert_same(groups.get(num), 1e-11, checks.random_numbers_in_loops, mesh, layout)


@pytest.mark.parametrize(
    ("num", "mesh", "layout"),
    [
        (4, "rows:2,cores:2", "x:rows,batch:cores"),
        (2, "", Layout.parse("slabs:3,cores:2", "x:slabs,batch:cores", "slabs")),
        pytest.param(2, "rows:6", "x:rows", marks=pytest.mark.slow),
        pytest.param(4, "cores:4", "batch:cores", marks=pytest.mark.slow),
    ],
)
def test_micro_batches_of_a_program(groups, num, mesh, layout):
    assert_same(groups.get(num), 1e-13, checks.parts_of_a_batch, mesh, layout)


@pytest.mark.slow
def test_recomputed_activations(groups):
    assert_same(groups.get(4), 1e-12, checks.recomputed, "rows:2,cols:2", "x:rows,y:cols")


@pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=[] if d in FEW_DTYPES else [pytest.mark.slow]) for d in DTYPES]
)
def test_reductions_of_every_dtype(groups, dtype):
    tolerance = {"bfloat16": 1e-2, "float16": 1e-3}.get(dtype, 1e-6)
    assert_same(groups.get(4), tolerance, checks.reductions, dtype, "rows:2,cols:6", "x:rows,y:cols")


def _check_copies(group, dtype, sizes, mesh, layout):
    """Checks the regions of all processes, and the copies that they return; returns the regions."""
    results = group.run(checks.copied, dtype, sizes, mesh, layout, "collective")
    expected = checks.numpy(tf.cast(np.arange(np.prod(sizes)).reshape(sizes) % 7, dtype))
    count = np.zeros(sizes, np.int32)
    for region, part, whole, joined in results:
        place = tuple(slice(*each) for each in region)
        count[place] += 1
        for value, wanted in ((part, expected[place]), (whole, expected), (joined, expected)):
            assert value.dtype == wanted.dtype
            np.testing.assert_array_equal(value, wanted)
    assert count.min() == count.max(), "some regions overlap, or do not cover the tensor"
    return [region for region, *_ in results]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_every_dtype_are_copied(groups, dtype):
    regions = _check_copies(groups.get(4), dtype, (5, 3), "rows:4,cols:2", "x:rows,y:cols")
    assert regions == [[(0, 2), (0, 3)], [(2, 4), (0, 3)], [(4, 5), (0, 3)], [(5, 5), (0, 3)]]


def test_all_faults_of_a_layout_are_reported_in_every_process(groups):
    args = "x:8,y:4,classes:4", "rows:2,cols:2", "x:rows,y:rows,classes:cols"
    expected = checks.layout_error(*args, "stacked")
    assert "has 2 faults" in expected
    assert "cannot split both 'x' (size 8) and 'y' (size 4) over 'rows'" in expected
    assert groups.get(4).run(checks.layout_error, *args, "collective") == [expected] * 4


@pytest.mark.slow
@pytest.mark.parametrize("num", [2, 3, 4, 8])
def test_regions_of_any_size(groups, num):
    meshes = {
        2: [
            ("rows:2,cols:3", "x:rows,y:cols"),
            ("rows:6", "x:rows"),
            ("", Layout.parse("slabs:3,rows:2", "x:slabs,y:rows", "slabs")),
        ],
        3: [("rows:3", "y:rows"), ("cols:2,rows:6", "x:rows,y:cols")],
        4: [("rows:2,cols:2", "x:rows,y:cols"), ("rows:2", "x:rows"), ("cols:4,rows:2", "x:rows,y:cols"), ("", "")],
        8: [("rows:4,cols:2", "x:rows,y:cols"), ("rows:8", "y:rows"), ("rows:2,cols:2", "y:rows,x:cols")],
    }
    for (mesh, layout), sizes in itertools.product(meshes[num], [(1, 1), (2, 7), (9, 4), (8, 8)]):
        _check_copies(groups.get(num), "int32", sizes, mesh, layout)


@pytest.mark.slow
def test_more_than_ten_processes(groups):
    """TensorFlow orders the processes of a group by name: 0, 1, 10, 2."""
    _check_copies(groups.get(11), "int32", (23, 3), "rows:11", "x:rows")
    _check_copies(groups.get(11), "float32", (5, 12), "rows:11", "y:rows")
    check_exchange(groups.get(11), [(i, (3 * i + 1) % 11, (2, i + 1)) for i in range(11)], "float32")
