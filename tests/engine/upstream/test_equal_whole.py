"""Values and gradients of mesh_tensorflow's operations under layouts equal those on one processor.

For each layout and mesh, one program contains all operations.
"""

import functools

import numpy as np
import pytest

import mtf_imaging as mi
from tests.engine.exchanges import check_exchanges
from tests.engine.upstream import even
from tests.engine.upstream.even import OPS, SHAPE, Dim

mtf = mi.mtf
SETUPS = [
    ("rows:2,cols:2", "x:rows,y:cols", "stacked", 1),
    *(
        pytest.param(*setup, marks=pytest.mark.slow)
        for setup in [
            ("rows:1,cols:2", "x:rows,y:cols", "stacked", 1),
            ("rows:4", "x:rows", "stacked", 1),
            ("m:2,spare:3,k:2", "channels:m,x:k", "stacked", 1),
            ("rows:1,cols:2", "x:rows,y:cols", "placement", 2),
            ("rows:2,cols:2", "x:rows,y:cols", "placement", 4),
            ("rows:2,spare:2,cols:2,rest:2", "x:rows,batch:cols", "placement", 4),
            ("m:2,spare:3,k:2", "channels:m,x:k", "placement", 2),
            ("cols:2,rows:2,cores:2", "y:rows,x:cols,batch:cores", "placement", 4),
            ("cols:2,rows:2,cores:2", "y:rows,x:cols,channels:cores", "placement", 8),
        ]
    ),
]
INPUTS = {"a": (SHAPE, "float64"), "b": (SHAPE, "float64")}


@functools.cache
def _results(mesh_shape, layout, mesh_impl, num_devices):
    """Returns the results of all operations under a layout."""
    fn, (a, b) = even.with_gradients(OPS), even.values()
    devices = [f"CPU:{number}" for number in range(num_devices)]
    p = mi.Program(fn, INPUTS, mesh_shape, layout, mesh_impl, devices)
    check_exchanges(p, fn, INPUTS)
    return {name: [value.numpy() for value in values] for name, values in p(a=a, b=b).items()}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize(("mesh_shape", "layout", "mesh_impl", "num_devices"), SETUPS)
def test_equals_whole(name, mesh_shape, layout, mesh_impl, num_devices):
    found, whole = _results(mesh_shape, layout, mesh_impl, num_devices)[name], _results("", "", "stacked", 1)[name]
    for value, expected in zip(found, whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


def test_some_operations_equal_numpy():
    """The tests compare with one processor, so its results must be correct."""
    (a, b), whole = even.values(), _results("", "", "stacked", 1)
    np.testing.assert_allclose(whole["einsum"][0], np.einsum("bxyc,bxyc->bx", a, b))
    np.testing.assert_allclose(whole["shift with wrap"][0], np.roll(a, 3, 1) * b)
    np.testing.assert_allclose(whole["reduce_mean of all"][1], 2 * (a * b).mean() * b / a.size)


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize(
    ("mesh_shape", "layout"),
    [
        ("rows:2,cols:4", "x:rows,late:cols"),
        ("cols:4,rows:2", "x:rows,late:cols"),
        ("rows:2,cols:2", "late:rows,x:cols"),
    ],
)
def test_a_renaming_changes_the_layout(mesh_shape, layout, mesh_impl):
    def op(a, b):
        y = mtf.rename_dimension(mtf.rename_dimension(a * b, "x", "late"), "y", "later")
        return y * mtf.range(a.mesh, Dim("late", 8), a.dtype)

    fn, (a, b) = even.with_gradients({"op": op}), even.values()
    whole, split = (mi.Program(fn, INPUTS, *setup)(a=a, b=b)["op"] for setup in [(), (mesh_shape, layout, mesh_impl)])
    for value, expected in zip(split, whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())
