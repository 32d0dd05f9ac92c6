"""Equal slices have no tails: their graphs have as many nodes as without the masks of uneven slices."""

import itertools

import pytest

import mtf_imaging as mi
from tests.engine.meshes.even_graphs import CPUS, check_nodes
from tests.engine.ops.differentiated import ROWS
from tests.engine.ops.test_second_derivatives import two_derivatives
from tests.engine.upstream.even import OPS, SHAPE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh_shape", "layout", "mesh_impl", "num_devices"),
    [
        ("rows:2,cols:2", "x:rows,y:cols", "stacked", 1),
        ("m:2,spare:3,k:2", "channels:m,x:k", "placement", 2),
    ],
)
def test_operations_of_mesh_tensorflow(mesh_shape, layout, mesh_impl, num_devices):
    def fn(a, b):
        values = [op(a, b) for op in OPS.values()]
        gradients = [mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(y))], [a, b]) for y in values]
        return [t for t in [*values, *itertools.chain(*gradients)] if t is not None]

    inputs = {"a": (SHAPE, "float64"), "b": (SHAPE, "float64")}
    check_nodes(lambda: mi.Program(fn, inputs, mesh_shape, layout, mesh_impl, CPUS[:num_devices]).num_nodes)


@pytest.mark.slow
def test_second_derivatives_of_all_operations():
    def num_nodes(row):
        fn, inputs = two_derivatives(row)
        names = {name for shape, _ in inputs.values() for name, _ in mi.layout.parse_shape(shape)}
        layout = ",".join(f"{name}:{rule}" for name, rule in [("x", "rows"), ("y", "cols")] if name in names)
        return mi.Program(fn, inputs, "rows:2,cols:2", layout, "stacked").num_nodes

    check_nodes(lambda: [num_nodes(row) for row in ROWS])


def test_the_check_finds_masks():
    def num_nodes():
        return mi.Program(mi.mtf.reduce_max, {"x": "x:5,channels:8"}, "rows:2", "x:rows", "stacked").num_nodes

    with pytest.raises((AssertionError, mi.LayoutError)):
        check_nodes(num_nodes)
