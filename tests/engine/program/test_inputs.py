"""The values that a program accepts for its inputs, and the errors about all others."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.program.inputs import Input

DTYPES = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


@pytest.fixture(scope="module")
def programs():
    """Programs that return their input `x`, of each dtype."""
    return {dtype: mi.Program(lambda x: x, {"x": ("x:2", dtype)}) for dtype in DTYPES}


def _array(values, dtype):
    return np.array(values, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ([1, 2], "int32", [1, 2]),
        ([1, 2], "float32", [1, 2]),
        ((1, 2.5), "bfloat16", [1, 2.5]),
        ([True, False], "float32", [1, 0]),
        ([2**40, -1], "int64", [2**40, -1]),
        ([np.float32(1), 2], "float32", [1, 2]),
        ([tf.constant(1.0), tf.constant(2.0)], "float32", [1, 2]),
        (_array([1, 2], "float64"), "float32", [1, 2]),
        (_array([1, 2], "float64"), "bfloat16", [1, 2]),
        (_array([1, 2], "bfloat16"), "float32", [1, 2]),
        (_array([1, 2], "bfloat16"), "float16", [1, 2]),
        (_array([1, 2], "longdouble"), "float32", [1, 2]),
        (_array([1, 2], ">f4"), "float32", [1, 2]),
        (_array([1, 2], ">i8"), "int32", [1, 2]),
        (_array([1, 2], "uint8"), "float16", [1, 2]),
        (_array([1, 2], "uint8"), "int32", [1, 2]),
        (_array([True, False], "bool"), "uint8", [1, 0]),
        (_array([1, -(2**31)], "int64"), "int32", [1, -(2**31)]),
        (_array([1, 255], "int64"), "uint8", [1, 255]),
        (_array([1, 2], "float32"), "complex64", [1, 2]),
        (tf.constant([1, 2], tf.int64), "int32", [1, 2]),
        (tf.constant([1, 2], tf.float64), "float32", [1, 2]),
        (tf.constant([1, 2], tf.float32), "bfloat16", [1, 2]),
        (tf.Variable([1, 2]), "float32", [1, 2]),
    ],
)
def test_values_that_survive_a_cast_are_accepted(programs, value, dtype, expected):
    result = programs[dtype](x=value)
    assert result.dtype == dtype
    assert result.numpy().tolist() == expected


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        ([1.5, 2], "int32", "dtype int32, not float64, because a cast to int32 would change values"),
        (_array([1, np.nan], "float32"), "int32", "dtype int32, not float32"),
        (_array([1, 2], "bfloat16"), "int32", "dtype int32, not bfloat16"),
        (_array([1, 2], "float64"), "bool", "dtype bool, not float64"),
        (_array([1, 2], "int32"), "bool", "dtype bool, not int32"),
        (_array([1, 2j], "complex64"), "float32", "dtype float32, not complex64"),
        (tf.constant([1.5, 2]), "int32", "dtype int32, not float32"),
        (tf.Variable([1.5, 2]), "int64", "dtype int64, not float32"),
        ([1, 2**40], "int32", "because it contains 1099511627776, and int32 has values from -2147483648 to 2147483647"),
        (_array([2**63, 1], "uint64"), "int64", "because it contains 9223372036854775808, and int64 has values"),
        (_array([1, 2**40], "int64"), "int32", "because it contains 1099511627776"),
        (_array([300, 400], "int64"), "uint8", "because it contains 300, and uint8 has values from 0 to 255"),
        (_array([1, -1], "int64"), "uint8", "because it contains -1"),
        (_array([1, 2**31], "uint32"), "int32", "because it contains 2147483648"),
        (tf.constant([1, 2**40], tf.int64), "int32", "because it contains 1099511627776"),
    ],
)
def test_values_that_a_cast_would_change_are_refused(programs, value, dtype, message):
    with pytest.raises(mi.ShapeError, match=f"^input 'x' must have .*{message}.*Fix: convert the values before"):
        programs[dtype](x=value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("text", "not of type str with dtype <U4"),
        ([2**70, 1], "not of type list with dtype object"),
        (None, "not of type NoneType with dtype object"),
        ([None, 1], "not of type list with dtype object"),
        ({"x": 1}, "not of type dict with dtype object"),
        ([[1], [1, 2]], "not of type list: .*inhomogeneous shape"),
        (np.array(["a", "b"]), "not of type ndarray with dtype <U1"),
        (np.array([1, 2], object), "not of type ndarray with dtype object"),
        (np.array([1, 2], "datetime64[s]"), r"not of type ndarray with dtype datetime64\[s\]"),
        (np.zeros(2, [("a", "f4")]), "not of type ndarray with dtype"),
        (tf.constant(["a", "b"]), "not of type EagerTensor with dtype object"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "not a masked array"),
    ],
)
def test_values_that_are_no_numbers_are_refused(programs, value, message):
    with pytest.raises(mi.ShapeError, match=f"^input 'x' must be an array of float32, {message}.*Fix: pass "):
        programs["float32"](x=value)


@pytest.mark.parametrize("value", [[1, 2, 3], [1], [[1, 2]], 1], ids=str)
def test_values_of_another_shape_are_refused(programs, value):
    shape = str(list(np.shape(value))).replace("[", r"\[")
    with pytest.raises(mi.ShapeError, match=rf"^input 'x' must have shape \[x:2\], not {shape}$"):
        programs["float32"](x=value)


def test_values_are_given_in_order_or_by_name():
    program = mi.Program(lambda x, y: x - 2 * y, {"x": ("x:2", "float32"), "y": ("x:2", "float32")})
    for result in (program([5, 6], [1, 2]), program([5, 6], y=[1, 2]), program(y=[1, 2], x=[5, 6])):
        np.testing.assert_array_equal(result, [3, 2])
    with pytest.raises(mi.ShapeError, match="the program has the inputs x, y, but gets 3 values"):
        program([1, 2], [3, 4], [5, 6])
    with pytest.raises(TypeError, match="multiple values for keyword argument 'x'"):
        program([1, 2], x=[3, 4])


def test_a_value_of_a_region_has_the_shape_of_the_region():
    x, region = Input("x", "x:8,y:3"), (slice(3, 6), slice(0, 3))
    assert x.convert(np.ones([3, 3]), region).shape == [3, 3]
    with pytest.raises(mi.ShapeError, match=r"^input 'x' must have shape \[x:3,y:3\], not \[6, 3\]$"):
        x.convert(np.ones([6, 3]), region)


def test_the_dtype_of_an_input_is_a_dtype_of_numbers():
    for dtype in ("flaot32", "string"):
        with pytest.raises(mi.ShapeError, match=f"input 'x' cannot have dtype '{dtype}'. Fix: choose a dtype of numb"):
            mi.Program(lambda x: x, {"x": ("x:2", dtype)})


def test_integers_within_a_graph_are_not_narrowed(programs):
    call = tf.function(lambda x: programs["int32"](x=x), autograph=False)
    assert call(tf.constant([1, 2])).numpy().tolist() == [1, 2]
    with pytest.raises(mi.ShapeError, match="int32, not int64, because the tensor is symbolic, so its values cannot"):
        call(tf.constant([1, 2], tf.int64))
