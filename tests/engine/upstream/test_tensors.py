"""Operators of `mtf.Tensor`, and errors about uses of a tensor that need its values."""

import operator
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi

mtf = mi.mtf
X = np.array([[-3.0, -2], [-1, 0], [1, 2], [3, 4]], np.float32)
LAYOUTS = ["", "x:m", "c:m"]
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def _program(fn, layout=""):
    return mi.Program(lambda x: fn(x), {"x": "x:4,c:2"}, "m:2", layout, "stacked", may_repeat=True)


@every_layout
def test_numbers_of_numpy_and_tensorflow_are_operands(layout):
    numbers = [np.float64(2), np.float32(2), np.int64(2), np.uint8(2), np.array(2.0), tf.bfloat16.as_numpy_dtype(2)]
    operators = [operator.add, operator.sub, operator.mul, operator.truediv]
    of_numpy = [operator.floordiv, operator.mod, operator.pow, operator.lt, operator.ge]

    def fn(x):
        pairs = [pair for n in [*numbers, tf.constant(2.0)] for pair in [(x, n), (n, x)]]
        results = [op(*pair) for op in operators for pair in pairs]
        return tuple(results + [op(*pair) for op in of_numpy for pair in pairs[:-1]])

    two = np.float32(2)
    pairs = [(X, two), (two, X)] * (len(numbers) + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = [op(*pair) for op in operators for pair in pairs]
        expected += [op(*pair) for op in of_numpy for pair in pairs[:-1]]
    for value, wanted in zip(_program(fn, layout)(x=X), expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


@every_layout
@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x < 0, X < 0),
        (lambda x: x <= -x, X <= -X),
        (lambda x: x > 0, X > 0),
        (lambda x: x >= mtf.abs(x), np.abs(X) <= X),
        (lambda x: True & (x > -2) & ~(x > 1) | (x < -2), (X > -2) & ~(X > 1) | (X < -2)),
        (abs, np.abs(X)),
        (lambda x: x**2, X**2),
        (lambda x: x**3.0, X**3),
        (lambda x: abs(x) ** 0.5, np.abs(X) ** 0.5),
        (lambda x: 2**x, 2**X),
        (lambda x: abs(x) ** mtf.reduce_sum(x, output_shape=x.shape[1:]), np.abs(X) ** X.sum(0)),
        (lambda x: mtf.cast(x, tf.int32) ** 2, X.astype(np.int32) ** 2),
        (lambda x: mtf.gradients([x**3], [x])[0], 3 * X**2),
        (lambda x: mtf.gradients([2.0**x], [x])[0], np.log(np.float32(2)) * 2**X),
    ],
)
def test_operators(fn, expected, layout):
    np.testing.assert_allclose(_program(fn, layout)(x=X), expected, rtol=1e-5)


ARRAYS = [np.ones(2, np.float32), np.ones(4), [1.0, 2.0], np.ones([4, 2]), tf.ones([2])]
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.gt]


def _error(fn, layout="", kind=mi.ShapeError):
    with pytest.raises(kind) as error:
        _program(fn, layout)
    return str(error.value)


@every_layout
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{type(array).__name__}{np.shape(array)}")
def test_arrays_are_no_operands_under_any_layout(array, layout):
    shape = list(np.shape(array))
    for op in [*BINARY, mtf.less, mtf.equal, mtf.minimum, mtf.maximum, mtf.multiply]:
        text = _error(lambda x, op=op: op(x, array), layout)
        assert f"the tensor 'x:0' [x:4,c:2] cannot be combined with an array of shape {shape}" in text
        assert "Fix: pass the array as another input of the program, or use mtf.import_tf_tensor" in text
    if isinstance(array, np.ndarray):
        for op in BINARY:
            assert f"an array of shape {shape}, whose axes have no" in _error(lambda x, op=op: op(array, x), layout)


@every_layout
def test_the_fix_for_arrays(layout):
    def fn(x):
        return x * mtf.import_tf_tensor(x.mesh, np.array([1, 2], np.float32), x.shape[1:])

    np.testing.assert_array_equal(_program(fn, layout)(x=X), X * [1, 2])


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            lambda x: x * None,
            r"^mtf.multiply: .* cannot be combined with None \(NoneType\). Fix: use a number or",
        ),
        (lambda x: x + "1", r"^mtf.add: .* cannot be combined with '1' \(str\)"),
        (lambda x: x - [[1], [1, 2]], r"^mtf.sub: .* cannot be combined with \[\[1\], \[1, 2\]\] \(list\)"),
        (lambda x: x * 1j, r"has dtype float32, which cannot represent 1j. Fix: .* mtf.cast\(x, tf.complex64\)"),
        (lambda x: mtf.cast(x, tf.int32) * 0.5, r"has dtype int32, which cannot represent 0.5. Fix: .*tf.float32\)"),
        (lambda x: (x > 0) + 1, r"has dtype bool, which cannot represent 1. Fix: .*tf.int32\)"),
        (
            lambda x: mtf.cast(x, tf.int32) / 2,
            "^mtf.divide: .* dtype int32, which cannot represent a quotient",
        ),
        (
            lambda x: 2 / mtf.cast(x, tf.int32),
            "^mtf.divide: .* dtype int32, which cannot represent a quotient",
        ),
        (
            lambda x: x * tf.constant(1.0, tf.float64),
            "has dtype float32, but the tf.Tensor has dtype float64. Fix",
        ),
        (
            lambda x: x * mtf.cast(x > 0, tf.int32),
            "^mtf.multiply: .*'x:0' .* has dtype float32, but .*'cast:0' .* has dtype int32. Fix: convert one of them",
        ),
        (lambda x: mtf.add(1, 2), "^mtf.add: neither 1 nor 2 is an mtf.Tensor"),
        (lambda x: x & (x > 0), r"^mtf.logical_and: the tensor 'x:0' \[x:4,c:2\] has dtype float32, not bool. Fix"),
        (lambda x: (x > 0) & 1, r"^mtf.logical_and: .* has dtype bool, which cannot represent 1"),
        (lambda x: ~x, "^mtf.logical_not: .* has dtype float32, not bool"),
        (
            lambda x: mtf.constant(x.mesh, [1, 2, 3], x.shape[1:]),
            r"^mtf.constant: .* shape \[3\], but",
        ),
    ],
)
def test_operands_that_are_no_numbers_of_the_dtype_are_refused(fn, message):
    with pytest.raises(mi.ShapeError, match=message):
        _program(fn)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            tf.nn.relu,
            "TensorFlow's function relu takes tf.Tensors, but the tensor 'x:0' [x:4,c:2] is an mtf",
        ),
        (tf.nn.relu, "Fix: use mi.ops.relu."),
        (tf.nn.leaky_relu, "Fix: use mi.ops.leaky_relu."),
        (tf.reduce_mean, "Fix: use mtf.reduce_mean."),
        (lambda x: tf.concat([x, x], 0), "Fix: use mtf.concat."),
        (lambda x: tf.nn.conv2d(x, x, 1, "SAME"), "Fix: use mi.ops.conv2d."),
        (lambda x: tf.add(tf.ones([2]), x), "Fix: use mtf.add."),
        (tf.convert_to_tensor, "Fix: use a function of mtf or mi.ops, or mtf.cwise"),
        (tf.constant, "it cannot be converted to an array or a number"),
        (tf.Variable, "it cannot be converted to an array or a number"),
        (
            np.exp,
            "NumPy's function exp takes arrays, but the tensor 'x:0' [x:4,c:2] is an mtf.Tensor. Fix: use mtf.exp.",
        ),
        (np.sum, "Fix: use mtf.reduce_sum."),
        (np.mean, "Fix: compute with the functions of mtf and mi.ops, and return the tensor"),
        (lambda x: np.float32(1) == x, "Fix: use mtf.equal."),
        (lambda x: np.ones([2, 2]) @ x, "Fix: use mtf.matmul."),
        (lambda x: np.add(x, 1, out=np.zeros(2)), "Fix: use mtf.add."),
        (np.asarray, "the tensor 'x:0' [x:4,c:2] has no values while the graph is built"),
        (float, "it cannot be converted to an array or a number"),
        (int, "it cannot be converted to an array or a number"),
        (lambda x: x.numpy(), "it cannot be converted to an array or a number"),
        (lambda x: x @ x, "Fix: use mtf.matmul(a, b, reduced_dims=[dim]) or mtf.einsum."),
        (lambda x: x[:, 1:], "Fix: use mtf.slice(x, begin, size, dim_name), mtf.unstack(x, dim) or mtf.gather"),
        (list, "cannot be iterated over. Fix: use mtf.unstack(x, dim)"),
        (lambda x: 1.0 in x, "cannot be iterated over"),
        (len, 'Fix: use x.shape.get_dim_by_name("x").size'),
        (lambda x: x if x > 0 else -x, "Fix: use mtf.where, mtf.while_loop, or the operators & | ~."),
        (lambda x: max(x, 0.0), "the truth of the tensor 'binary_op:0' [x:4,c:2] is unknown while the graph is built"),
    ],
)
def test_uses_of_a_tensor_that_need_its_values(fn, message):
    assert message in _error(fn, kind=mi.NotSupportedError)


def test_tensors_are_compared_by_identity_and_are_true():
    """mesh_tensorflow finds tensors in lists and dicts, and tells them from None by their truth."""

    def fn(x):
        assert x == x
        assert x != mtf.square(x)
        assert x != 1
        assert {x: 1}[x] == 1
        assert x in [None, x]
        assert x
        return x

    _program(fn)


def test_tensorflow_still_reports_its_own_errors():
    with pytest.raises((TypeError, ValueError), match="convert"):
        tf.nn.relu(object())


@pytest.mark.parametrize("layout", ["", "x:rows", "channels:rows"])
def test_a_constant_may_be_an_array_with_a_shape(layout):
    def fn(x):
        return x * mtf.constant(x.mesh, [1, 2, 3], x.shape.dims[1:], dtype=x.dtype)

    x = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(mi.Program(fn, {"x": "x:4,channels:3"}, "rows:2", layout)(x=x), x * [1, 2, 3])


@pytest.mark.parametrize("layout", ["", "x:rows", "channels:rows"])
def test_the_axes_of_a_constant_are_the_dimensions_of_its_shape_in_order(layout):
    values = np.arange(12).reshape(4, 3)

    def fn(x):
        return x + mtf.constant(x.mesh, values, x.shape, dtype=x.dtype)

    result = mi.Program(fn, {"x": "x:4,channels:3"}, "rows:2", layout)(x=np.ones((4, 3)))
    np.testing.assert_array_equal(result, 1 + values)
    with pytest.raises(mi.ShapeError, match=r"^mtf.constant: the value is an array of shape \[3, 4\], but"):
        mi.Program(lambda x: mtf.constant(x.mesh, values.T, x.shape), {"x": "x:4,channels:3"})


def test_the_dimensions_of_a_result_have_different_names():
    """Without the check, the sum would have the dimensions x:4, c:2 and x:2."""
    with pytest.raises(mi.ShapeError) as error:
        _program(lambda x: x + mtf.slice(x, 0, 2, "x"))
    assert str(error.value) == (
        "AddOperation 'add': the result would have two dimensions 'x', of sizes 4 and 2. The inputs are Shape[x=4, "
        "c=2] and Shape[x=2, c=2]. Fix: resize or crop an input, or rename one dimension with mtf.rename_dimension."
    )


@pytest.mark.slow
def test_functions_are_checked_before_there_is_a_program():
    """A function of `mi.mtf` may be taken before any other part of the package is imported."""
    code = "from mtf_imaging import mtf; assert mtf.less.__wrapped__"
    subprocess.run([sys.executable, "-c", code], check=True)
