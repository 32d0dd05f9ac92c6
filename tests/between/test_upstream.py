"""Operations of mesh_tensorflow on a mesh of several processes: values and gradients equal those of one processor."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mtf_imaging.engine.layout import Layout
from tests.between import checks
from tests.between.comparison import assert_same
from tests.engine.upstream import even
from tests.engine.upstream.test_uneven import any_reshapes

IN_TURNS = Layout.parse("slabs:3,rows:4", "x:slabs,y:rows", "slabs")
FEW = (
    "shift by 3 with wrap",
    "shift in a while_loop",
    "while_loop with a sum",
    "top_k of 2",
    "exchange of splits",
    "move all",
    "slicewise",
    "sin of a reshape",
    "elu of a convolution",
    "cwise with a broadcast input",
    "gather along x",
    "einsum over x",
    "unstack x",
    "attention",
)


@pytest.mark.slow
def test_some_operations_on_uneven_slices(groups):
    assert_same(groups.get(4), 1e-10, checks.uneven_upstream, FEW, "rows:4,cols:3", "x:rows,y:cols")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "num", "mesh", "layout"),
    [
        (0, 4, "rows:4,cols:2", "x:rows,y:cols"),
        (1, 3, "rows:6,cols:2", "x:rows,y:cols"),
        (2, 2, "cores:2,rows:5", "batch:cores,x:rows"),
        (1, 2, "", IN_TURNS),
    ],
)
def test_all_operations_on_uneven_slices(groups, first, num, mesh, layout):
    """Every third operation runs under each layout, so every operation runs under one of them."""
    names, group = tuple(checks.UNEVEN)[first::3], groups.get(num)
    for start in range(4):  # smaller programs are built faster
        assert_same(group, 1e-10, checks.uneven_upstream, names[start::4], mesh, layout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "mesh", "layout"),
    [(0, "rows:2,cols:2", "x:rows,y:cols"), (1, "rows:2,spare:2,cols:2", "x:rows,batch:cols")],
)
def test_all_operations_on_even_slices(groups, first, mesh, layout):
    """Every second operation runs under each layout."""
    assert_same(groups.get(4), 1e-10, checks.even_upstream, tuple(even.OPS)[first::2], mesh, layout)


MESHES = ["rows:2,cols:2", "rows:4,cols:3", "rows:3,cols:4", "cols:4,rows:2", "rows:2,cols:2,spare:2"]


def _check_reshape(groups, shapes, mesh):
    before, after = shapes
    names = {name for name, _ in before + after}
    layout = ",".join(f"{dim}:{rule}" for dim, rule in [("x", "rows"), ("u", "rows"), ("y", "cols")] if dim in names)
    assume(layout)
    values = np.arange(np.prod([n for _, n in before])) * 2 + 1
    for result in groups.get(4).run(checks.reshaped, before, after, mesh, layout, "collective"):
        np.testing.assert_array_equal(result, values.reshape([n for _, n in after]))


@settings(max_examples=8)
@given(any_reshapes(), st.sampled_from(MESHES))
def test_any_reshape(groups, shapes, mesh):
    _check_reshape(groups, shapes, mesh)


@pytest.mark.slow
@settings(max_examples=20)
@given(any_reshapes(), st.sampled_from(MESHES))
def test_many_reshapes(groups, shapes, mesh):
    _check_reshape(groups, shapes, mesh)
