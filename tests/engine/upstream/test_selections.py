"""Functions that select elements: NaN and infinite numbers that are not selected do not count, as in TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests import poison
from tests.engine.exchanges import check_exchanges

mtf = mi.mtf
Dim = mtf.Dimension
X, Y, ROW, K = Dim("x", 7), Dim("y", 5), Dim("i", 5), Dim("k", 2)
SHAPES = {"x": ("x:7,y:5", "float64"), "rows": ("i:5", "int32"), "columns": ("x:7", "int32"), "number": ("", "float64")}
# x:7 over 3 are slices of 3, 3 and 1; y:5 over 4 of 2, 2, 1 and 0; i:5 over 4 as y.
SETUPS = [
    ("", "", "stacked"),
    pytest.param(("r:3", "x:r", "stacked"), marks=pytest.mark.slow),
    ("r:3,c:4", "x:r,y:c", "stacked"),
    ("r:2,c:2", "x:r,y:c", "placement"),
    ("r:2,k:4", "x:r,i:k", "stacked"),
    pytest.param(("k:2,c:2", "i:k,y:c", "placement"), marks=pytest.mark.slow),
    ("k:2", "k:k", "stacked"),
]
ROWS, COLUMNS = np.array([1, 4, 1, -1, 7], np.int32), np.array([0, 4, 2, 2, 0, 7, 1], np.int32)


def values():
    """Returns numbers of both signs, of which row 3 and one element of row 5 are not finite."""
    x = np.random.default_rng(0).permutation(35).reshape(7, 5) / 35 - 0.4
    x[3], x[5, 1], x[0, 2] = np.nan, -np.inf, 0
    return x


def _tf_gather(x, at, axis, batch_dims=0):
    """Returns 0 for indices that are not elements of the axis."""
    is_there = (at >= 0) & (at < x.shape[axis])
    picked = tf.gather(x, tf.where(is_there, at, 0), axis=axis, batch_dims=batch_dims)
    return tf.where(tf.reshape(is_there, [*at.shape, *[1] * (len(picked.shape) - len(at.shape))]), picked, 0)


def _tf_shift(x, offset, wrap):
    return tf.roll(x, offset, 0) if wrap else tf.pad(x[:-offset], [[offset, 0], [0, 0]])


def _constant(x, number):
    return mtf.constant(x.mesh, number, dtype=tf.int32)


def _finite(x):
    """Keeps NaN out of functions whose order of NaN TensorFlow does not define."""
    return mtf.where(mtf.equal(x, x), x, -9)


# {name: (function of the tensors, the same function in TensorFlow)}
CASES = {
    # TensorFlow's own gradient of where(x > 0, log(x), 0) is NaN at 0.
    **{
        f"where {name}": (
            lambda x, r, c, fn=fn: mtf.where(x > 0, fn(x), 0),
            lambda x, r, c, fn=tf_fn: tf.where(x > 0, fn(tf.where(x > 0, x, 1)), 0),
        )
        for name, fn, tf_fn in [
            ("log", mtf.log, tf.math.log),
            ("sqrt", mtf.sqrt, tf.sqrt),
            ("rsqrt", mtf.rsqrt, tf.math.rsqrt),
        ]
    },
    "where not": (
        lambda x, r, c: mtf.where(x <= 0, 0, 1 / x),
        lambda x, r, c: tf.where(x <= 0, 0, 1 / tf.where(x <= 0, 1, x)),
    ),
    "where of rows": (
        lambda x, r, c: mtf.where(mtf.greater(c, 1), x, mtf.range(x.mesh, Y, x.dtype)),
        lambda x, r, c: tf.where(c[:, None] > 1, x, tf.range(5, dtype=x.dtype)),
    ),
    "where into a shape": (
        lambda x, r, c: mtf.where(mtf.greater(c, 1), mtf.reduce_sum(x, reduced_dim=Y), 2, output_shape=[K, X]),
        lambda x, r, c: tf.broadcast_to(tf.where(c > 1, tf.reduce_sum(x, 1), 2), [2, 7]),
    ),
    "maximum": (lambda x, r, c: mtf.maximum(x, 0.1), lambda x, r, c: tf.maximum(x, 0.1)),
    "minimum": (
        lambda x, r, c: mtf.minimum(mtf.range(x.mesh, Y, x.dtype) * 0.1, x),
        lambda x, r, c: tf.minimum(tf.range(5, dtype=x.dtype) * 0.1, x),
    ),
    "relu": (lambda x, r, c: mtf.relu(x), lambda x, r, c: tf.nn.relu(x)),
    "leaky_relu": (lambda x, r, c: mtf.leaky_relu(x, 0.3), lambda x, r, c: tf.nn.leaky_relu(x, 0.3)),
    "gather": (lambda x, r, c: mtf.gather(x, r, X), lambda x, r, c: _tf_gather(x, r, 0)),
    "gather columns": (
        lambda x, r, c: mtf.gather(x, r, Y, output_shape=[ROW, X]),
        lambda x, r, c: _tf_gather(tf.transpose(x), r, 0),
    ),
    "gather of each row": (lambda x, r, c: mtf.gather(x, c, Y), lambda x, r, c: _tf_gather(x, c, 1, 1)),
    "gather one": (lambda x, r, c: mtf.gather(x, 4, X), lambda x, r, c: x[4]),
    "gather booleans": (
        lambda x, r, c: mtf.cast(mtf.gather(x > 0, r, X), x.dtype) * mtf.gather(x, r, X),
        lambda x, r, c: tf.cast(_tf_gather(x, r, 0) > 0, x.dtype) * _tf_gather(x, r, 0),
    ),
    "reduce_first": (lambda x, r, c: mtf.reduce_first(x, X), lambda x, r, c: x[0]),
    "nth_largest_element": (
        lambda x, r, c: mtf.nth_largest_element(_finite(x), 2, Y),
        lambda x, r, c: tf.math.top_k(tf.where(x == x, x, -9), 3)[0][:, 2],
    ),
    "top_k": (
        lambda x, r, c: mtf.top_k(_finite(x), X, K)[0],
        lambda x, r, c: tf.math.top_k(tf.transpose(tf.where(x == x, x, -9)), 2)[0],
    ),
    "cumsum": (lambda x, r, c: mtf.cumsum(x, X), lambda x, r, c: tf.cumsum(x, 0)),
    "exclusive cumsum": (lambda x, r, c: mtf.cumsum(x, X, True), lambda x, r, c: tf.cumsum(x, 0, True)),
    "dynamic_shift": (
        lambda x, r, c: mtf.dynamic_shift(x, _constant(x, 2), X, False),
        lambda x, r, c: _tf_shift(x, 2, False),
    ),
    "dynamic_shift with wrap": (
        lambda x, r, c: mtf.dynamic_shift(x, _constant(x, 2), X, True),
        lambda x, r, c: _tf_shift(x, 2, True),
    ),
    "softmax cross entropy": (
        lambda x, r, c: mtf.layers.softmax_cross_entropy_with_logits(x, mtf.minimum(c, 4), Y),
        lambda x, r, c: tf.nn.sparse_softmax_cross_entropy_with_logits(tf.minimum(c, 4), x),
    ),
    "recompute_grad": (lambda x, r, c: mtf.recompute_grad(lambda u: u * u, [x]), lambda x, r, c: x * x),
}


def _cotangent(shape):
    """Returns the gradient with respect to a result, and the element that is replaced by another number."""
    numbers = np.arange(np.prod(shape)).reshape(shape)
    return np.cos(numbers), numbers == numbers.size // 2


def _expected(name, number):
    x, (_, reference) = tf.constant(values()), CASES[name]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = reference(x, tf.constant(ROWS), tf.constant(COLUMNS))
    dy, replaced = _cotangent(y.shape.as_list())
    dy = tf.constant(np.where(replaced, number, dy))
    return y.numpy(), tf.convert_to_tensor(tape.gradient(y, x, dy)).numpy()


def selections(x, rows, columns, number):
    """Returns the results of all cases and their gradients."""
    results = {}
    for name, (function, _) in CASES.items():
        y = function(x, rows, columns)
        cotangent = _cotangent(y.shape.to_integer_list)
        dy, replaced = [mtf.import_tf_tensor(y.mesh, tf.constant(each), y.shape) for each in cotangent]
        results[name] = (y, *mtf.gradients([y], [x], [mtf.where(replaced, number, dy)]))
    return results


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_unselected_numbers_do_not_count(setup):
    program = mi.Program(selections, SHAPES, *setup, ["CPU:0", "CPU:1"])
    check_exchanges(program, selections, SHAPES)
    for number in (0.5, np.nan, np.inf):
        for name, results in program(x=values(), rows=ROWS, columns=COLUMNS, number=number).items():
            for result, expected in zip(results, _expected(name, number), strict=True):
                np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12, err_msg=f"{name}, {number}")


@pytest.mark.parametrize("layout", ["", "x:r", "x:r,i:c"])
def test_second_derivatives_of_selections(layout):
    """The derivatives of cubes of selected elements, computed by hand."""

    def fn(x, rows):
        y = mtf.gather(x, rows, X)
        z = mtf.where(mtf.cumsum(x, X) > 3, x, 0)
        (dx,) = mtf.gradients([mtf.reduce_sum(y * y * y) + mtf.reduce_sum(z * z * z)], [x])
        return mtf.gradients([mtf.reduce_sum(dx)], [x])[0]

    x = np.arange(7.0)
    specs = {"x": ("x:7", "float64"), "rows": ("i:5", "int32")}
    ddx = mi.Program(fn, specs, "r:3,c:2", layout, "stacked")(x=x, rows=ROWS)
    assert ddx.numpy().tolist() == (6 * x * [0, 2, 0, 1, 2, 1, 1]).tolist()


@pytest.mark.parametrize("layout", ["", "x:r"])
def test_dropped_numbers_do_not_count(layout):
    def fn(x):
        y = mtf.dropout(x, True, rate=0.5)
        return y, mtf.gradients([y], [x], [x])[0]

    y, dx = mi.Program(fn, {"x": "x:64"}, "r:3", layout, "stacked")(x=np.repeat([np.nan, 1], 32))
    dropped = np.isnan(y)[:32], np.isnan(dx)[:32]
    np.testing.assert_array_equal(*dropped)
    assert 4 < dropped[0].sum() < 28
    assert (set(y.numpy()[:32][~dropped[0]]), set(y.numpy()[32:])) == ({0}, {0, 2})


def test_tails_of_indices_are_not_added():
    """Without the poison, an index in a tail is 0 and its gradient is 1."""

    def fn(x, rows, logs):
        return mtf.gradients([mtf.gather(x, rows, X)], [x], [mtf.exp(logs)])[0]

    specs = {"x": "x:7", "rows": ("i:5", "int32"), "logs": "i:5"}
    with poison.removed():
        dx = mi.Program(fn, specs, "k:4", "i:k", "stacked")(x=np.zeros(7), rows=[1, 1, 1, 2, 6], logs=np.zeros(5))
    assert dx.numpy().tolist() == [0, 3, 1, 0, 0, 0, 1]


@pytest.mark.parametrize("layout", ["", "x:r"])
def test_sums_in_sixteen_bits(layout):
    """In bfloat16, the sum of ones does not exceed 256."""

    def fn(x, rows):
        return mtf.cumsum(x, x.shape.dims[0]), mtf.gradients([mtf.gather(x, rows, x.shape.dims[0])], [x])[0]

    specs = {"x": ("x:1024", "bfloat16"), "rows": ("i:1024", "int32")}
    sums, dx = mi.Program(fn, specs, "r:2", layout, "stacked")(x=np.ones(1024), rows=np.zeros(1024, int))
    assert (float(sums[-1]), float(dx[0])) == (1024, 1024)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x, r: mtf.where(x, x, 0), r"mtf\.where: the tensor 'x:0' \[x:7,y:5\] has dtype float32, not bool"),
        (lambda x, r: mtf.where(x > 0, 1, 0), r"mtf\.where: neither 1 nor 0 is an mtf\.Tensor"),
        (lambda x, r: mtf.where(x > 0, x, r), r"mtf\.where: .* has dtype float32, but .* has dtype int32"),
        (lambda x, r: mtf.gather(x, r, ROW), r"mtf\.gather: .* 'i' \(size 5\) must be a dimension of the first tensor"),
        (lambda x, r: mtf.gather(x, x, X), r"mtf\.gather: the indices must be integers"),
        (lambda x, r: mtf.dynamic_shift(x, r, X, True), r"mtf\.dynamic_shift: .* but has Shape\[i=5\]"),
    ],
)
def test_wrong_arguments(fn, message):
    with pytest.raises(mi.ShapeError, match=message):
        mi.Program(lambda x, rows: fn(x, rows), {"x": "x:7,y:5", "rows": ("i:5", "int32")})


@pytest.mark.parametrize("fn", [lambda x, r: mtf.gather(x, r, X), lambda x, r: mtf.einsum([x, r], output_shape=[])])
def test_dimensions_that_are_combined_need_different_mesh_dimensions(fn):
    specs = {"x": ("x:7", "int32"), "rows": ("i:5", "int32")}
    with pytest.raises(mi.LayoutError, match=r"cannot split both 'x' \(size 7\) and 'i' \(size 5\) over 'm'"):
        mi.Program(lambda x, rows: fn(x, rows), specs, "m:2", "x:m,i:m")


@pytest.mark.parametrize("layout", ["", "x:m"])
def test_gradients_of_max_pools_of_equal_and_unselected_voxels(layout):
    def fn(x, dy):
        y = mtf.layers.max_pool2d(x, (2, 2))
        return mtf.gradients([y], [x], [mtf.reshape(dy, y.shape)])[0]

    x = np.array([[1, 1, 3, 2], [1, 0, 5, 4], [0, 7, 0, 0], [7, 7, 0, 0]], np.float32)[None, ..., None]
    dy = np.array([[np.nan, 1], [2, np.inf]], np.float32)[None, ..., None]
    program = mi.Program(fn, {"x": "b:1,x:4,y:4,c:1", "dy": "b:1,x:2,y:2,c:1"}, "m:2", layout)
    with tf.GradientTape() as tape:
        voxels = tf.constant(x)
        tape.watch(voxels)
        y = tf.nn.max_pool2d(voxels, 2, 2, "VALID")
    np.testing.assert_array_equal(program(x=x, dy=dy), tape.gradient(y, voxels, tf.constant(dy)))
