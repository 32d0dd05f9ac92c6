"""Gathering dimensions within a program and splitting them again changes no values or gradients, on any mesh."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.meshes import ShardMeshImpl
from tests.engine.harness import Case, check

mtf, ops = mi.mtf, mi.ops
SHAPES = {"x": "batch:2,x:8,y:8,z:4,channels:2", "f": "fx:3,fy:3,fz:3,channels:2,filters:2"}


def resharded(names, x, f):
    """Computes a square on slices, a convolution and a mean on the gathered tensor, and a convolution on slices."""
    x = ops.gather_slices(mtf.square(x), list(names))
    x = mtf.rename_dimension(ops.conv3d(x, f), "filters", "channels")
    x = x * mtf.reduce_mean(x, reduced_dim=x.shape.dims[1])
    return ops.conv3d(ops.scatter_slices(x, list(names)), f)


def reference(x, f):
    x = tf.nn.convolution(tf.square(x), f, padding="SAME")
    return tf.nn.convolution(x * tf.reduce_mean(x, axis=1, keepdims=True), f, padding="SAME")


def case(names):
    return Case(f"gather {names}", lambda x, f: resharded(names, x, f), reference, SHAPES)


@pytest.mark.mostly_slow(fast=0.12)
@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize(
    ("names", "mesh_shape", "layout"),
    [
        ("x", "", ""),
        ("x", "rows:4", "x:rows"),
        ("xz", "spare:2,rows:8", "x:rows"),
        ("xy", "rows:2,cols:4", "x:rows,y:cols"),
        ("y", "rows:2,cols:4", "x:rows,y:cols"),
        ("x", "rows:2,cores:2", "x:rows,batch:cores"),
        ("xz", "rows:2,cols:2,planes:2", "x:rows,y:cols,z:planes"),
        ("xyz", "planes:4,rows:2,cols:1", "x:rows,y:cols,z:planes"),
        ("xy", "rows:2,cols:2,model:2", "x:rows,y:cols,filters:model"),
        # The gathered dimension has its own rule, which splits it in another way.
        ("x", "rows:2,cols:4", "x:rows,x_whole:cols"),
        ("xz", "rows:2,planes:2", "x:rows,z_whole:rows,x_whole:planes"),
    ],
)
def test_equals_the_whole(names, mesh_shape, layout, mesh_impl):
    check(case(names), "float64", mesh_shape, layout, mesh_impl)


def test_a_device_may_hold_several_processors():
    check(case("xy"), "float64", "rows:4,cols:4", "x:rows,y:cols", "placement")


def count_exchanges(monkeypatch):
    """Returns a list to which each exchange appends the number of mesh dimensions along which it gathers slices."""
    counts, gather = [], ShardMeshImpl.gather
    monkeypatch.setattr(
        ShardMeshImpl, "gather", lambda self, x, dims: counts.append(len(dims)) or gather(self, x, dims)
    )
    return counts


def test_slices_are_gathered_once_forward_and_once_for_the_gradient_of_the_split(monkeypatch):
    counts = count_exchanges(monkeypatch)

    def fn(x):
        y = ops.scatter_slices(mtf.square(ops.gather_slices(x, ["x", "y"])), ["x", "y"])
        return mtf.gradients([mtf.reduce_sum(mtf.square(y))], [x])[0]

    program = mi.Program(fn, {"x": "x:8,y:8,z:2"}, "rows:4,cols:4", "x:rows,y:cols", "stacked")
    assert [number for number in counts if number] == [2, 2]
    value = np.arange(128, dtype=np.float32).reshape(8, 8, 2) / 128
    np.testing.assert_allclose(program(x=value), 4 * value**3, rtol=1e-6)


def test_no_device_holds_more_than_slices_and_the_whole():
    """If mesh dimensions were gathered one at a time, a shard would temporarily hold several copies of the whole."""
    sizes = []

    def fn(x):
        return ops.scatter_slices(mtf.square(ops.gather_slices(x, ["x", "y"])), ["x", "y"])

    program = mi.Program(fn, {"x": "x:32,y:32,z:2"}, "rows:8,cols:8", "x:rows,y:cols", "stacked")
    sizes = [np.prod(t.shape) for op in program.function.graph.get_operations() for t in op.outputs]
    assert max(sizes) == 32 * 32 * 2


def test_a_network_can_ask_for_the_number_of_slices():
    slices = []

    def fn(x):
        slices.append(ops.slices_per_dimension(x))
        slices.append(ops.slices_per_dimension(ops.gather_slices(x, "x")))
        return x

    mi.Program(fn, {"x": "x:8,y:8,z:2"}, "rows:4,cols:2", "x:rows,y:cols", "stacked")
    assert slices == [{"x": 4, "y": 2, "z": 1}, {"x_whole": 1, "y": 2, "z": 1}]


def test_changes_are_reported():
    program = mi.Program(
        lambda x: ops.scatter_slices(ops.gather_slices(x, ["x", "y"], "together"), "x", "apart"),
        {"x": "x:8,y:8,z:2"},
        "rows:4,cols:2",
        "x:rows,y:cols",
    )
    assert [str(change) for change in program.changes] == [
        "together gathers x and y: slices of 2 x 4 x 2 become 8 x 8 x 2 (512 bytes)",
        "apart splits x: slices of 8 x 8 x 2 become 2 x 8 x 2 (128 bytes)",
    ]


@pytest.mark.parametrize("op", [ops.gather_slices, ops.scatter_slices])
def test_an_empty_list_of_names_returns_the_tensor(op):
    def fn(x):
        assert op(x, []) is x
        return x

    assert not mi.Program(fn, {"x": "x:8"}).changes


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (
            lambda x: ops.gather_slices(x, ["x", "w"], "together"),
            r"together: there is no dimension 'w'; the tensor has .*x=8",
        ),
        (lambda x: ops.scatter_slices(x, "x"), "scatter_slices: there is no dimension 'x_whole'"),
    ],
)
def test_missing_dimensions(fn, text):
    with pytest.raises(mi.ShapeError, match=text):
        mi.Program(fn, {"x": "x:8,y:8"})


def test_a_rule_for_a_dimension_that_is_never_gathered_is_an_error():
    with pytest.raises(mi.LayoutError, match="no tensor dimension is called 'x_whole'"):
        mi.Program(lambda x: x, {"x": "x:8"}, "rows:2", "x_whole:rows")
