"""Small cases of mesh_tensorflow's operations that only one fault breaks; `tests/mutants` lists these faults."""

import numpy as np
import pytest

import mtf_imaging as mi
from tests.engine.exchanges import check_exchanges

mtf = mi.mtf
Dim, Shape = mtf.Dimension, mtf.Shape


def _run(fn, specs, *values):
    program = mi.Program(fn, specs, "rows:3", "x:rows")
    check_exchanges(program, fn, specs)
    return [np.array(value) for value in program(**dict(zip(specs, values, strict=True)))]


def test_the_loser_of_two_equal_inputs_of_a_maximum_has_no_gradient():
    x = np.array([1.0, 2.0, 2.0, 3.0])

    def fn(x, y):
        return mtf.gradients([mtf.reduce_sum(mtf.maximum(x, y))], [x, y])

    program = mi.Program(fn, {"x": ("x:4", "float64"), "y": ("x:4", "float64")}, "rows:2", "x:rows")
    dx, dy = program(x=x, y=np.array([2.0, 2.0, 1.0, 3.0]))
    np.testing.assert_array_equal(dx, [0, 1, 1, 1])
    np.testing.assert_array_equal(dy, [1, 0, 0, 0])


def test_deferred_sums_are_complete_before_a_function_that_is_not_linear():
    a, b = np.random.default_rng(0).standard_normal((2, 7, 4))

    def fn(a, b):
        first, second = (mtf.reduce_sum(t, reduced_dim=t.shape.dims[0]) for t in (a, b))
        return mtf.mod(first, second), mtf.less(first, second), mtf.maximum(first, second)

    rest, is_less, largest = _run(fn, {"a": ("x:7,y:4", "float64"), "b": ("x:7,y:4", "float64")}, a, b)
    np.testing.assert_allclose(rest, a.sum(0) % b.sum(0), rtol=1e-12)
    np.testing.assert_array_equal(is_less, a.sum(0) < b.sum(0))
    np.testing.assert_allclose(largest, np.maximum(a.sum(0), b.sum(0)), rtol=1e-12)


def test_equal_largest_elements_share_the_gradient_of_a_maximum():
    x = np.array([[1.0, 5, 2], [4, 5, 2], [4, 0, 2], [3, 5, 2]])

    def fn(x):
        return mtf.gradients([mtf.reduce_sum(mtf.reduce_max(x, reduced_dim=x.shape.dims[0]))], [x])

    (dx,) = _run(fn, {"x": ("x:4,y:3", "float64")}, x)
    third = 1 / 3
    np.testing.assert_allclose(dx, [[0, third, 0.25], [0.5, third, 0.25], [0.5, 0, 0.25], [0, third, 0.25]])


def test_the_unused_tensors_of_an_unstack_have_no_gradient():
    x = np.arange(28.0).reshape(7, 4)

    def fn(x):
        return mtf.gradients([mtf.reduce_sum(mtf.square(mtf.unstack(x, x.shape.dims[1])[2]))], [x])

    (dx,) = _run(fn, {"x": ("x:7,y:4", "float64")}, x)
    np.testing.assert_array_equal(dx, 2 * x * [0, 0, 1, 0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x:7,y:6", "t:7,x:6"),  # uneven slices become even ones of another dimension
        ("x:7,y:6", "x:6,y:7"),  # the dimension keeps its place, but not its size
        ("x:6,y:4,z:3", "t:6,x:12"),  # 3 processors cannot exchange equal parts of y:4
    ],
)
def test_reshapes_that_an_exchange_of_equal_parts_cannot_do(before, after):
    sizes, dims = ([part.split(":") for part in text.split(",")] for text in (before, after))
    x = np.arange(np.prod([int(n) for _, n in sizes])).reshape([int(n) for _, n in sizes])
    shape = Shape([Dim(name, int(n)) for name, n in dims])
    (y,) = _run(lambda x: (mtf.reshape(x * 2, shape),), {"x": (before, "int32")}, x)
    np.testing.assert_array_equal(y, (2 * x).reshape(shape.to_integer_list))


@pytest.mark.parametrize("offset", [1, -3, 6])
def test_a_shift_with_wrap_exchanges_the_two_ends(offset):
    x = np.arange(12.0)
    (y,) = _run(lambda x: (mtf.shift(x, offset, x.shape.dims[0], wrap=True),), {"x": ("x:12", "float64")}, x)
    np.testing.assert_array_equal(y, np.roll(x, offset))


def test_the_largest_of_negative_elements_are_not_those_of_tails():
    x = -1.0 - np.random.default_rng(0).permutation(28).reshape(7, 4)

    def fn(x):
        return mtf.top_k(x, x.shape.dims[0], Dim("k", 5))

    values, indices = _run(fn, {"x": ("x:7,y:4", "float64")}, x)
    np.testing.assert_array_equal(values, -np.sort(-x, 0)[:5].T)
    np.testing.assert_array_equal(indices, np.argsort(-x, 0)[:5].T)
