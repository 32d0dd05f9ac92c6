"""One NaN or infinite number makes the same outputs and gradients non-finite under every layout.

An operation that multiplies by a mask, or reads beyond its slice, spreads NaN: 0 times NaN is NaN.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_layout, parse_shape
from tests.engine.ops.differentiated import CONSTANTS, ROWS, Row
from tests.engine.upstream import uneven

mtf = mi.mtf

# Uneven slices of x:8 have 3, 3 and 2 voxels, those of y:4 have 2, 2 and 0; channels:4 over 3 have 2, 2 and 0.
SETUPS = {
    "even": ("rows:2,cols:2", "x:rows,y:cols", "stacked"),
    "uneven": ("rows:3,cols:3", "x:rows,y:cols", "stacked"),
    "uneven on devices": ("rows:3,model:3", "x:rows,channels:model", "placement"),
    "batch": ("cores:3,rows:5", "batch:cores,x:rows", "stacked"),
}
NUMBERS = (np.nan, np.inf, -np.inf)
# Where zero padding meets a number that is not finite, TensorFlow's own result depends on its kernel. Of the 315 voxels
# of a 3-D convolution with SAME padding, an infinite tap in the corner of the filter makes 192 infinite in float32
# (oneDNN skips the padding); in float64, and without oneDNN, all are infinite or NaN (Eigen multiplies zeros by the
# tap). A NaN voxel in the corner makes 8 and 27 of the 27 taps of the filter's gradient NaN. So for these pairs of an
# input and a result, every element that is not finite in the whole tensor must not be finite in slices, but slices may
# have more of them:
KERNEL_DEPENDENT = {
    ("conv", "f"): (0, 1),  # an infinite tap: the convolution or its transpose, and the gradient of the other
    ("conv2d of 4 groups", "x"): (2,),  # a voxel at the border: the gradient of the filter
    ("conv3d", "x"): (2,),
    ("separable_conv3d", "x"): (2,),  # 2 of the 6 taps of the whole tensor, all 6 where slices widen the windows
    ("separable_conv3d", "d"): (1,),
}
# With a stride, TensorFlow's gradient of the voxels multiplies all taps by the zeros between windows. A slice with a
# single window has no such zeros, so slices may have fewer elements that are not finite.
WITHOUT_ZEROS = {("separable_conv2d", "d"): (1,)}


def agree(row, name, place, value, wanted):
    """Returns whether slices have the finite elements of the whole tensor, with the exceptions above."""
    value, wanted = states(value), states(wanted)
    if row in WITHOUT_PADDING:
        # The gradient of the voxels is a convolution with padding. TensorFlow's filter gradient also multiplies voxels
        # that no window reads, by zeros.
        return (name, place) in (("f", 1), ("x", 2)) or np.array_equal(value, wanted)
    pairs = [(prefix, own) for (prefix, own) in KERNEL_DEPENDENT if str(row).startswith(prefix) and own == name]
    if any(place in KERNEL_DEPENDENT[pair] for pair in pairs):
        return (wanted <= value).all()
    if place in WITHOUT_ZEROS.get((str(row), name), ()):
        return (value <= wanted).all() and value.any()
    return np.array_equal(value, wanted)


def positions(sizes):
    """Returns the first and the last element, and elements at the borders of slices."""
    first, last = [0] * len(sizes), [n - 1 for n in sizes]
    border = [min(n - 1, -(-n // 3)) for n in sizes]
    return dict.fromkeys(map(tuple, (first, last, border, [n // 2 for n in sizes])))


def states(value):
    """Returns 0 for finite elements and 1 for others."""
    return (~np.isfinite(value)).astype(int)


_programs = {}


def program(row, setup):
    """Returns a program with the output of an operation and its gradients."""
    if (str(row), setup) not in _programs:
        _programs[str(row), setup] = _build(row, setup)
    return _programs[str(row), setup]


def _build(row, setup):

    def fn(**tensors):
        y = row.fn(**tensors)
        variables = {v.name: v.outputs[0] for v in y.graph.trainable_variables}
        inputs = [value for name, value in tensors.items() if name not in CONSTANTS]
        inputs += [variables[name] for name in row.variables]
        return y, *mtf.gradients([mtf.reduce_sum(y)], inputs)

    specs = {name: (shape, "int32" if name == "labels" else "float64") for name, shape in row.shapes.items()}
    result = mi.Program(fn, specs, *(SETUPS[setup] if setup else ()), devices=["CPU:0", "CPU:1"])
    for name in row.variables:
        result.variables[name].assign(row.values()[name])
    return result


def _valid(name, shape, filter_shape, strides):
    """Returns a convolution without padding, which reads each voxel and each tap in true windows only."""
    op = getattr(mi.ops, name)
    return Row(
        name,
        f"VALID, strides {strides}",
        lambda x, f: op(x, f, strides, "VALID"),
        None,
        {"x": shape, "f": filter_shape},
    )


WITHOUT_PADDING = [
    _valid("conv2d", "batch:2,x:8,y:6,channels:3", "fx:3,fy:2,channels:3,out:2", (2, 2)),
    _valid("conv2d", "batch:1,x:9,y:7,channels:2", "fx:2,fy:3,channels:2,out:3", (3, 1)),
    _valid("conv3d", "batch:2,x:8,y:5,z:4,channels:2", "fx:3,fy:2,fz:2,channels:2,out:3", (1, 2, 1)),
]


def _table():
    rows = []
    for row in [*ROWS, *WITHOUT_PADDING]:
        dims = {dim for shape in row.shapes.values() for dim, _ in parse_shape(shape)}
        rows += [(row, setup) for setup in SETUPS if all(dim in dims for dim, _ in parse_layout(SETUPS[setup][1]))]
    return rows


@pytest.mark.mostly_slow(fast=0.04)
@pytest.mark.parametrize(("row", "setup"), _table(), ids=str)
def test_operations_of_mi_ops(row, setup):
    inputs = {name: row.values()[name] for name in row.shapes}
    whole, split = program(row, None), program(row, setup)
    failures = []
    for name in inputs:
        if name in CONSTANTS:
            continue
        for number, position in zip(NUMBERS * 2, positions(inputs[name].shape)):
            changed = {**inputs, name: inputs[name].copy()}
            changed[name][position] = number
            for place, (value, wanted) in enumerate(zip(split(**changed), whole(**changed), strict=True)):
                if not agree(row, name, place, value, wanted):
                    counts = f"{states(value).sum()} instead of {states(wanted).sum()}"
                    failures.append(f"{number} at {position} of {name}, result {place}: {counts} are not finite")
    assert not failures, "\n".join(failures)


# x:7 over 5 processors are slices of 2, 2, 2, 1 and 0 elements, y:5 over 4 of 2, 2, 1 and 0.
UPSTREAM_SETUPS = {
    "stacked": ("rows:5,cols:4", "x:rows,y:cols", "stacked"),
    "on devices": ("rows:3,cols:2", "x:rows,y:cols", "placement"),
}
# A loop of 3 iterations, and operations that are tested with random numbers, take long to build and read nothing new.
SELECTED = {
    "fast": (
        "reduce_max",
        "reduce_min",
        "reduce_logsumexp",
        "softmax over x",
        "argmax over x",
        "top_k",
        "cumsum along x",
    ),
    "all": tuple(uneven.OPS),
}


@functools.cache
def _upstream(setup, selected):
    """Returns a program with the value and the gradients of operations of mesh_tensorflow."""

    def fn(a, b):
        results = {}
        for name in SELECTED[selected]:
            y = uneven.OPS[name](a, b)
            gradients = mtf.gradients([mtf.reduce_sum(y)], [a, b])
            results[name] = (y, *(mtf.zeros_like(a) if dx is None else dx for dx in gradients))
        return results

    specs = dict.fromkeys(["a", "b"], (uneven.SHAPE, "float64"))
    return mi.Program(fn, specs, *(UPSTREAM_SETUPS[setup] if setup else ()), devices=["CPU:0", "CPU:1"])


@pytest.mark.parametrize(
    ("setup", "selected"),
    [("stacked", "fast"), *(pytest.param(setup, "all", marks=pytest.mark.slow) for setup in UPSTREAM_SETUPS)],
)
def test_operations_of_mesh_tensorflow(setup, selected):
    sizes = [size for _, size in parse_shape(uneven.SHAPE)]
    rng, failures = np.random.default_rng(0), []
    # No two values are equal, so every maximum is unique.
    inputs = {name: rng.permutation(630).reshape(sizes) / 630 - 0.5 for name in ("a", "b")}
    for name in inputs:
        for number, position in zip(NUMBERS * 2, positions(sizes)):
            changed = {**inputs, name: inputs[name].copy()}
            changed[name][position] = number
            values, wanted = (_upstream(each, selected)(**changed) for each in (setup, None))
            for op in wanted:
                different = [not np.array_equal(states(v), states(w)) for v, w in zip(values[op], wanted[op])]
                if any(different):
                    failures.append(f"{op}, {number} at {position} of {name}: different results {different}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("setup", UPSTREAM_SETUPS)
@pytest.mark.parametrize(
    ("number", "kind"), [(-np.inf, "reduce_max"), (np.inf, "reduce_min"), (-np.inf, "reduce_logsumexp")]
)
def test_reductions_of_infinite_tensors(number, kind, setup):
    def fn(x):
        dim = x.shape.dims[0]
        if kind == "reduce_logsumexp":
            return mtf.reduce_logsumexp(x, dim)
        return getattr(mtf, kind)(x, reduced_dim=dim), getattr(mtf, kind)(x)

    x, specs = np.full((7, 5), number), {"x": ("x:7,y:5", "float64")}
    values, expected = (tf.nest.flatten(mi.Program(fn, specs, *own)(x=x)) for own in (UPSTREAM_SETUPS[setup], ()))
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_array_equal(value, wanted)


@pytest.mark.parametrize("layout", ["", "x:rows"])
@pytest.mark.parametrize(
    ("values", "order"),
    [
        ([1, np.nan, 3, np.inf, -np.inf], [1, 3, 2, 0, 4]),
        ([np.nan] * 5, [0, 1, 2, 3, 4]),
        ([-np.inf] * 5, [0, 1, 2, 3, 4]),
        ([0.0, -0.0, 0.0, 2e9, -2e9], [3, 0, 1, 2, 4]),
    ],
)
def test_nan_is_the_largest_score(values, order, layout):
    """TensorFlow's order of NaN depends on its place, so it is defined here: NaN comes first, in order of the index."""

    def fn(x):
        (dim,) = x.shape.dims
        return mtf.argmax(x, dim), *(mtf.top_k(x, dim, mtf.Dimension("k", k)) for k in (1, 2, 5))

    first, *tops = mi.Program(fn, {"x": "x:5"}, "rows:4", layout, "stacked")(x=np.array(values, np.float32))
    assert int(first) == order[0]
    for best, chosen in tops:
        assert chosen.numpy().tolist() == order[: len(chosen)]
        np.testing.assert_array_equal(best, np.array(values, np.float32)[chosen.numpy()])
