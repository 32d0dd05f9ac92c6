"""Operations of mesh_tensorflow: values computed by hand, and errors that name the operation, the sizes and a fix."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.exchanges import check_exchanges

mtf = mi.mtf
Dim = mtf.Dimension
DEVICES = [f"CPU:{number}" for number in range(8)]


@pytest.mark.parametrize(("mesh_impl", "num_devices"), [("stacked", 1), ("placement", 2), ("placement", 8)])
@pytest.mark.parametrize("op", [mtf.cwise, mtf.slicewise])
def test_the_gradient_to_a_smaller_input_is_summed_over_processors_once(op, mesh_impl, num_devices):
    """Mesh dimension k splits nothing, so all processors along it compute the same values."""

    def fn(x, scale):
        options = {"splittable_dims": x.shape.dims} if op is mtf.slicewise else {}
        y = op(lambda u, v: u * v, [x, scale], **options)
        return mtf.gradients([mtf.reduce_sum(y)], [x, scale])

    inputs = {"x": "rows:6,c:4", "scale": "c:4"}
    p = mi.Program(fn, inputs, "m:3,k:2", "rows:m", mesh_impl, DEVICES[:num_devices])
    dx, dscale = p(x=np.ones([6, 4]), scale=[1, 2, 3, 4])
    assert dscale.numpy().tolist() == [6, 6, 6, 6]
    assert dx.numpy().tolist() == [[1, 2, 3, 4]] * 6


@pytest.mark.parametrize("layout", ["", "x:m"])
@pytest.mark.parametrize("power", [1, 2])
def test_the_gradients_of_arguments_that_depend_on_each_other_are_partial(layout, power):
    """With the power 1, both arguments are the same tensor."""

    def fn(x):
        other = mtf.square(x) if power == 2 else x
        y = mtf.slicewise(lambda u, v: u * v * v, [x, other], splittable_dims=x.shape.dims)
        (dx,) = mtf.gradients([mtf.reduce_sum(y)], [x])
        return dx, mtf.gradients([mtf.reduce_sum(mtf.square(dx))], [x])[0]

    x, n = np.arange(1.0, 5), 1 + 2 * power  # y = x^n
    dx, second = mi.Program(fn, {"x": ("x:4", "float64")}, "m:2", layout, "stacked")(x=x)
    np.testing.assert_allclose(dx, n * x ** (n - 1), rtol=1e-12)
    np.testing.assert_allclose(second, 2 * n**2 * (n - 1) * x ** (2 * n - 3), rtol=1e-12)


def test_slicewise_needs_no_list_of_splittable_dimensions():
    p = mi.Program(lambda x: mtf.slicewise(tf.square, [x]), {"x": "x:4,y:2"})
    assert p(x=[[1, 2]] * 4).numpy().tolist() == [[1, 4]] * 4


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize(
    ("mesh_shape", "layout"),
    [("m:4", "out:m"), ("m:2,k:2", "out:m,batch:k"), ("m:2,k:2", "channels:m,out:k"), ("m:1,k:4", "x:m,channels:k")],
)
def test_a_convolution_of_mesh_tensorflow_with_a_split_filter(mesh_shape, layout, mesh_impl):
    def fn(x):
        y = mtf.layers.conv1d(x, Dim("out", 4), 3, name="conv")
        (kernel,) = x.mesh.graph.trainable_variables
        return y, *mtf.gradients([mtf.reduce_sum(mtf.square(y))], [x, kernel.value])

    x = np.random.default_rng(0).standard_normal([2, 6, 4]).astype(np.float32)
    inputs = {"x": "batch:2,x:6,channels:4"}
    whole = mi.Program(fn, inputs)(x=x)
    p = mi.Program(fn, inputs, mesh_shape, layout, mesh_impl, DEVICES[:2])
    check_exchanges(p, fn, inputs)
    for value, expected in zip(p(x=x), whole, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


def _fault(fn, mesh_shape, layout, shape="batch:2,x:8,y:4,channels:4"):
    with pytest.raises(mi.LayoutError) as error:
        mi.Program(fn, {"x": shape}, mesh_shape, layout)
    return str(error.value)


def test_an_undeclared_split_of_slicewise_is_refused():
    text = _fault(lambda x: mtf.slicewise(tf.cumsum, [x], splittable_dims=x.shape.dims[1:]), "m:2", "batch:m")
    assert "SlicewiseOperation 'slicewise': cannot split 'batch' (size 2) over 'm' (size 2): the operation does" in text
    assert "Fix: drop 'batch:m', or declare it in splittable_dims" in text


@pytest.mark.parametrize(
    ("fn", "fix"),
    [
        (lambda x: mtf.layers.conv2d(x, Dim("out", 2)), "mi.ops.conv2d"),
        (lambda x: mtf.layers.conv1d(mtf.reduce_sum(x, reduced_dim=x.shape.dims[2]), Dim("out", 2)), "mi.ops.conv1d"),
        (lambda x: mtf.layers.conv2d_transpose(x, Dim("out", 2)), "mi.ops.conv2d_transpose"),
        (lambda x: mtf.layers.max_pool2d(mtf.pad(x, [0, 2], "x"), (3, 2)), "mi.ops.max_pool2d"),
    ],
)
def test_windows_of_mesh_tensorflow_are_not_split(fn, fix):
    assert f"Fix: drop 'x:m', or use {fix}, which exchanges halos" in _fault(fn, "m:2", "x:m")


def test_transposed_convolutions_of_mesh_tensorflow_do_not_split_their_output_channels():
    text = _fault(lambda x: mtf.layers.conv2d_transpose(x, Dim("out", 4)), "m:2", "out:m")
    assert "cannot split 'out' (size 4) over 'm' (size 2): every processor computes all output channels" in text
    assert "Fix: drop 'out:m', or use mi.ops.conv2d_transpose, which splits it" in text


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            lambda x: mtf.while_loop(lambda t: mtf.less(mtf.reduce_sum(t), 9.0), lambda t: [t * 2.0], [x])[0],
            "WhileLoopOperation 'while_loop' has no gradient",
        ),
        (lambda x: mtf.floordiv(x, 2.0), "has no gradient"),
        (
            lambda x: mtf.layers.max_pool2d(x, (3, 2)),
            r"cover 'x' \(size 8\) evenly, but windows of 3 leave a remainder of 2",
        ),
    ],
)
def test_operations_without_a_gradient_are_refused(fn, message):
    with pytest.raises(mi.NotSupportedError, match=message):
        mi.Program(lambda x: mtf.gradients([mtf.reduce_sum(fn(x))], [x])[0], {"x": "batch:1,x:8,y:4,channels:2"})


def test_an_assignment_in_a_loop_is_refused():
    def fn(x):
        variable = mtf.get_variable(x.mesh, "sum", x.shape)

        def body(i, t):
            mtf.assign(variable, t)
            return [i + 1, t * 2.0]

        start = mtf.constant(x.mesh, 0, dtype=tf.int32)
        return mtf.while_loop(lambda i, t: mtf.less(i, 2), body, [start, x])[1]

    with pytest.raises(mi.NotSupportedError, match=r"its body assigns to a variable.*assign it afterwards"):
        mi.Program(fn, {"x": "x:2"})


def _reversible(f, x):
    first, _, second, _ = mtf.layers.reversible_half_residual_and_swap(x, None, x, None, f)
    return first + second


@pytest.mark.parametrize("repeated", [lambda f, x: mtf.recompute_grad(f, [x]), _reversible, mi.ops.recompute])
def test_a_repeated_forward_pass_does_not_repeat_assignments(repeated):
    def fn(x):
        count = mtf.get_variable(x.mesh, "count", mtf.Shape([]), initializer=tf.zeros_initializer(), trainable=False)

        def f(x):
            mtf.assign_add(count, mtf.ones(x.mesh, mtf.Shape([])))
            return mtf.tanh(mi.ops.batch_norm(x, True, 0.75, name="norm"))

        return mtf.gradients([mtf.reduce_sum(mtf.square(repeated(f, x)))], [x])[0]

    p = mi.Program(fn, {"x": "batch:2,x:4,channels:1"}, "rows:2", "x:rows")
    p(x=np.full((2, 4, 1), 8.0))
    assert float(p.variables["count"]) == 1
    assert float(p.variables["norm/moving_mean"][0]) == 8 * 0.25


def _loop(inputs, **options):
    """Doubles the second input twice; the first input counts."""
    return mtf.while_loop(lambda i, t: mtf.less(i, 2), lambda i, t: (i + 1, t * 2.0), inputs, **options)


def _count(x):
    return mtf.constant(x.mesh, 0, dtype=tf.int32)


@pytest.mark.parametrize("layout", ["", "x:m"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, several: mtf.concat(several([x, x]), "x"),
        lambda x, several: mtf.stack(several([x, x]), "s"),
        lambda x, several: mtf.add_n(several([x, x])),
        lambda x, several: mtf.einsum(several([x, x]), output_shape=x.shape),
        lambda x, several: mtf.cwise(lambda a, b: a * b, several([x, x])),
        lambda x, several: mtf.slicewise(
            lambda a, b: (a, a * b),
            several([x, x]),
            several([x.shape, x.shape]),
            several([tf.float32, tf.float32]),
            several(x.shape.dims),
        )[1],
        lambda x, several: mtf.recompute_grad(lambda a, b: a * b, several([x, x])),
        lambda x, several: mtf.stop_gradient(_loop(several([_count(x), mtf.stop_gradient(x)]))[1]) * x,
        lambda x, several: mtf.split(x, x.shape.dims[0], several([1, 3]))[1],
        lambda x, several: mtf.depend(x, several([x])),
        lambda x, several: mtf.Print(x, several([x, x]), "x"),
        lambda x, several: mtf.replace_dimensions(x, several(x.shape.dims), several([Dim("all", 8)])),
        lambda x, several: mtf.layers.dense(
            x,
            several([Dim("a", 2), Dim("b", 2)]),
            several(x.shape.dims[1:]),
            kernel_initializer=tf.ones_initializer(),
        ),
    ],
)
def test_tuples_are_accepted_like_lists(fn, layout):
    def values_and_gradients(x):
        results = []
        for several in (list, tuple):
            y = fn(x, several)
            results += [y, *mtf.gradients(several([mtf.reduce_sum(mtf.square(y))]), several([x]))]
        return tuple(results)

    x = np.arange(8, dtype=np.float32).reshape([4, 2])
    y, dx, same_y, same_dx = mi.Program(values_and_gradients, {"x": "x:4,c:2"}, "m:2", layout, may_repeat=True)(x=x)
    np.testing.assert_array_equal(same_y, y)
    np.testing.assert_array_equal(same_dx, dx)


def test_a_loop_keeps_its_whole_state():
    p = mi.Program(lambda x: tuple(_loop((_count(x), x), num_loop_vars=1)), {"x": "x:2"})
    assert [int(i) for i in p(x=[1, 2])] == [2]
