"""A U-Net with batch norm and dropout on several processes computes and trains as on one device."""

import numpy as np
import pytest

from mtf_imaging.engine.layout import Layout
from tests.between import checks
from tests.between.comparison import assert_same

IN_TURNS = Layout.parse("slabs:3,rows:2", "x:slabs,y:rows", "slabs")
LAYOUTS = [
    (4, "rows:2,cols:2", "x:rows,y:cols"),
    pytest.param(4, "rows:4,cols:4", "x:rows,y:cols", marks=pytest.mark.slow),  # 4 processors per process
    pytest.param(4, "rows:2,cores:2", "x:rows,batch:cores", marks=pytest.mark.slow),
    pytest.param(4, "rows:3,cols:4", "x:rows,y:cols", marks=pytest.mark.slow),  # uneven slices
    pytest.param(2, "rows:2", "x:rows", marks=pytest.mark.slow),
    pytest.param(2, "", IN_TURNS, marks=pytest.mark.slow),
    pytest.param(2, "rows:6,cols:2", "x:rows,y:cols", marks=pytest.mark.slow),
]
all_layouts = pytest.mark.parametrize(("num", "mesh", "layout"), LAYOUTS)


@pytest.mark.slow
@all_layouts
def test_three_steps(groups, num, mesh, layout):
    assert_same(groups.get(num), 1e-9, checks.trained, mesh, layout)


@pytest.mark.slow
@all_layouts
def test_gradients(groups, num, mesh, layout):
    assert_same(groups.get(num), 1e-9, checks.gradients, mesh, layout)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num", "mesh", "layout"),
    [(4, "rows:2,cols:2", "x:rows,y:cols"), (2, "rows:2,cores:3", "x:rows,batch:cores"), (2, "", IN_TURNS)],
)
def test_micro_batches(groups, num, mesh, layout):
    assert_same(groups.get(num), 1e-9, checks.trained_in_micro_batches, 2, mesh, layout)


@pytest.mark.slow
def test_the_first_loss_in_float32(groups):
    args = "float32", 1, "rows:2,cols:2", "x:rows,y:cols"
    results = [*groups.get(4).run(checks.trained_in, *args, "collective"), checks.trained_in(*args, "stacked")]
    losses = [rows[0]["loss"] for rows, *_ in results]
    np.testing.assert_allclose(losses, losses[-1], rtol=1e-5)


def test_gradients_travel_in_few_messages(groups):
    """Without norms, no operation of the backward pass sums over processes; only the loss and the measures do."""
    counts = groups.get(4).run(checks.sums_of_a_step, "rows:2,cols:2", "x:rows,y:cols", "none")
    assert counts == [counts[0]] * 4
    large = [count for count in counts[0] if count > 8]
    assert len(large) <= 5
    assert len(counts[0]) <= 5 + 8
