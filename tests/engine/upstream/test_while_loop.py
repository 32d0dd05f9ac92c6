"""`mtf.while_loop`: random values of its iterations, gradients, variables, and tensors that leave it.

Other operations in loops are rows of `test_equal_whole.py` and `test_uneven.py`.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.ops.over_batch import FirstPass, in_pass

mtf = mi.mtf
SIZES = (4, 8, 6)
SHAPE = ("batch:4,x:8,y:6", "float64")
LAYOUTS = {
    "whole": {},
    "stacked": {"mesh_shape": "rows:2,cores:2", "layout": "x:rows,batch:cores", "mesh_impl": "stacked"},
    "placement": {"mesh_shape": "rows:2,cols:2", "layout": "x:rows,y:cols", "mesh_impl": "placement"},
    "uneven": {"mesh_shape": "rows:3,cols:4", "layout": "x:rows,y:cols", "mesh_impl": "stacked"},
    "turns": {"mesh_shape": "rows:2,cols:4", "layout": "x:rows,y:cols", "mesh_impl": "stacked", "sequential": "rows"},
    "turns on two devices": {
        "mesh_shape": "rows:2,cols:3",
        "layout": "x:rows,y:cols",
        "mesh_impl": "placement",
        "sequential": "cols",
    },
}
RANDOM = {
    "mi.ops.dropout": lambda x: mi.ops.dropout(mtf.ones_like(x), 0.5),
    "mtf.dropout": lambda x: mtf.dropout(mtf.ones_like(x), is_training=True, keep_prob=0.5),
    "mtf.random_uniform": lambda x: mtf.random_uniform(x.mesh, x.shape, dtype=x.dtype),
    "mtf.random_normal": lambda x: mtf.random_normal(x.mesh, x.shape, dtype=x.dtype),
}


def number(x, value):
    return mtf.constant(x.mesh, value, dtype=tf.int32)


def loop(x, body, count=4):
    """Returns the sum of `body(t)` over the iterations, where t is the sum so far."""
    start = [number(x, 0), mtf.zeros_like(x)]
    return mtf.while_loop(lambda i, t: mtf.less(i, count), lambda i, t: [i + 1, t + body(t)], start)[1]


def iterations(x, draw, count=4):
    """Returns the values of `draw(x)` in each iteration of a loop, as a list of tensors."""

    def body(i, *results):
        values = draw(x)
        return [i + 1, *(t + values * mtf.cast(mtf.equal(i, k), x.dtype) for k, t in enumerate(results))]

    start = [number(x, 0), *(mtf.zeros_like(x) for _ in range(count))]
    return mtf.while_loop(lambda i, *_: mtf.less(i, count), body, start)[1:]


def run(fn, shape=SHAPE, **options):
    program = mi.Program(fn, {"x": shape}, **options)
    return [value.numpy() for value in tf.nest.flatten(program(x=np.ones(SIZES)))]


def assert_different(values):
    for a, b in itertools.combinations(values, 2):
        assert not np.array_equal(a, b)


def test_the_masks_of_several_iterations_are_independent():
    (total,) = run(lambda x: loop(x, lambda t: mi.ops.dropout(mtf.ones_like(x), 0.5)))
    assert set(np.unique(total)) == {0, 2, 4, 6, 8}  # equal masks would sum to 0 or 8


def _drawn(x):
    """Returns values outside of loops, in two loops and in nested loops, of each random operation."""
    values = {}
    for name, draw in RANDOM.items():
        before = draw(x)

        def outer(i, *results, draw=draw):
            at = [mtf.cast(mtf.equal(i, k), x.dtype) for k in range(2)]
            return [
                i + 1,
                *(t + new * at[k // 2] for k, (t, new) in enumerate(zip(results, 2 * iterations(x, draw, 2)))),
            ]

        start = [number(x, 0), *[mtf.zeros_like(x)] * 4]
        nested = mtf.while_loop(lambda i, *_: mtf.less(i, 2), outer, start)[1:]
        values[name] = [before, *iterations(x, draw, 2), *iterations(x, draw, 2), *nested, draw(x)]
    return values


def draw_all(**options):
    program = mi.Program(_drawn, {"x": SHAPE}, seed=3, **options)
    return tf.nest.map_structure(lambda value: value.numpy(), program(x=np.ones(SIZES)))


@pytest.fixture(scope="module")
def drawn():
    return draw_all()


@pytest.mark.parametrize("name", RANDOM)
def test_every_iteration_draws_other_values(drawn, name):
    assert len(drawn[name]) == 1 + 2 + 2 + 4 + 1
    assert_different(drawn[name])


@pytest.mark.parametrize(
    "layout", [name if name == "uneven" else pytest.param(name, marks=pytest.mark.slow) for name in list(LAYOUTS)[1:]]
)
def test_values_in_loops_do_not_depend_on_the_layout(drawn, layout):
    values = draw_all(**LAYOUTS[layout])
    for name, expected in drawn.items():
        np.testing.assert_array_equal(values[name], expected, err_msg=name)


def test_values_in_a_loop_depend_on_seed_and_step():
    def fn(x):
        return iterations(x, RANDOM["mi.ops.dropout"]) + iterations(x, RANDOM["mtf.random_uniform"])

    drawn = []
    for seed, step in itertools.product((0, 1), (0, 1)):
        program = mi.Program(fn, {"x": SHAPE}, seed=seed, updates="none")
        program.step.assign(step)
        once, again = ([value.numpy() for value in program(x=np.ones(SIZES))] for _ in range(2))
        np.testing.assert_array_equal(once, again)
        drawn += once
    assert_different(drawn)


def test_random_values_outside_of_loops_are_those_of_earlier_versions():
    def fn(x):
        values = mtf.random_uniform(x.mesh, x.shape), mtf.random_normal(x.mesh, x.shape), mi.ops.dropout(x, 0.5)
        return *values, *iterations(x, lambda x: mtf.random_uniform(x.mesh, x.shape))

    program = mi.Program(fn, {"x": "x:4,y:2"}, seed=7)
    program.step.assign(3)
    uniform, normal, dropped, *_ = (value.numpy().ravel() for value in program(x=np.ones((4, 2))))
    hexadecimal = ["0x1.a12a8p-4", "0x1.9b32fp-4", "0x1.b22fe8p-3"]
    np.testing.assert_array_equal(uniform[:3], [float.fromhex(value) for value in hexadecimal])
    np.testing.assert_allclose(normal[:3], [-1.7403164, 0.72893745, -0.42790943], rtol=1e-6)
    np.testing.assert_array_equal(dropped, [0, 2, 0, 2, 2, 2, 0, 2])


def test_a_condition_draws_other_values_in_each_iteration():
    """A loop that ends when the condition draws a small number: with equal numbers, it would not run or not end."""

    def fn(x):
        def condition(i):
            drawn = mtf.random_uniform(x.mesh, mtf.Shape([]))
            return mtf.logical_and(mtf.less(0.2, drawn), mtf.less(i, 1000))

        return mtf.while_loop(condition, lambda i: [i + 1], [number(x, 0)])[0]

    counts = [int(run(fn, seed=seed)[0]) for seed in range(8)]
    assert len(set(counts)) > 1
    assert 0 < max(counts) < 1000


def test_micro_batches_draw_the_values_of_the_whole_batch():
    def fn(x):
        return iterations(x, RANDOM["mi.ops.dropout"]) + iterations(x, RANDOM["mtf.random_normal"])

    whole = run(fn)
    options = {"mesh_shape": "rows:2", "layout": "x:rows", "part_of": ("batch", 2)}
    program = mi.Program(fn, {"x": ("batch:2,x:8,y:6", "float64")}, **options)
    parts = [program.call_part(i, x=np.ones((2, 8, 6))) for i in range(2)]
    for value, *pieces in zip(whole, *parts, strict=True):
        np.testing.assert_array_equal(np.concatenate(pieces), value)


def test_masks_of_iterations_are_not_correlated():
    def fn(x):
        return iterations(x, lambda x: mi.ops.dropout(mtf.ones_like(x), 0.5), 6)

    program = mi.Program(fn, {"x": "x:256,y:256"})
    masks = [value.numpy().ravel() - 1 for value in program(x=np.ones((256, 256)))]
    correlations = np.corrcoef(masks) - np.eye(6)
    assert np.abs(correlations).max() < 5 / 256
    for first, second in itertools.pairwise(masks):
        for shift in range(1, 9):
            assert abs(np.mean(first * np.roll(second, shift))) < 5 / 256


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_gradient_in_a_loop_has_the_mask_of_its_dropout(layout):
    """The dropout may be in the same iteration, or outside the loop."""

    def fn(x):
        outside = mi.ops.dropout(x, 0.5)
        results = [mtf.zeros_like(x)] * 3

        def body(i, *_):
            own = x + mtf.cast(i, x.dtype)
            within = mi.ops.dropout(own, 0.5)
            (through_outside,) = mtf.gradients([mtf.reduce_sum(outside)], [x])
            (through_within,) = mtf.gradients([mtf.reduce_sum(within)], [own])
            return [i + 1, through_outside, through_within, within / own]

        return outside, *mtf.while_loop(lambda i, *_: mtf.less(i, 3), body, [number(x, 0), *results])[1:]

    outside, through_outside, through_within, within = run(fn, **LAYOUTS[layout])
    np.testing.assert_array_equal(through_outside, outside)
    np.testing.assert_array_equal(through_within, within)
    assert not np.array_equal(outside, within)


def test_a_gradient_in_a_loop_through_a_function_outside_of_it():
    def fn(x):
        y = mtf.cwise(lambda u: tf.sinh(u), [x])
        return loop(x, lambda t: mtf.gradients([mtf.reduce_sum(mtf.square(y))], [x])[0])

    for layout in LAYOUTS.values():
        np.testing.assert_allclose(run(fn, **layout)[0], 4 * np.sinh(2.0), rtol=1e-12)


def _block(x):
    return mtf.tanh(mi.ops.dropout(x, 0.5) * mtf.random_uniform(x.mesh, x.shape, dtype=x.dtype))


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_recomputation_in_a_loop_changes_nothing(layout):
    def fn(call):
        def body(t, x):
            y = call(_block, t + x)
            return y + mtf.gradients([mtf.reduce_sum(mtf.square(y))], [t])[0]

        return lambda x: loop(x, lambda t: body(t, x))

    plain, recomputed = (run(fn(call), **LAYOUTS[layout]) for call in (lambda f, x: f(x), mi.ops.recompute))
    np.testing.assert_allclose(recomputed, plain, rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_loop_is_not_recomputed(layout):
    def fn(call):
        def block(x):
            scale = mtf.tanh(x)
            noise = loop(x, lambda t: scale * mtf.random_uniform(x.mesh, x.shape, dtype=x.dtype))
            return x * scale * mtf.stop_gradient(noise)

        def step(x):
            y = call(block, x)
            gradient = mtf.gradients([mtf.reduce_sum(mtf.square(y))], [x])[0]
            return y, gradient, mtf.random_uniform(x.mesh, x.shape)

        return step

    plain, recomputed = (run(fn(call), **LAYOUTS[layout]) for call in (lambda f, x: f(x), mi.ops.recompute))
    np.testing.assert_allclose(recomputed, plain, rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_condition_and_body_share_a_variable(layout):
    """The variable is also read after the loop, and in the condition of a nested loop."""

    def limit(x):
        ones = tf.compat.v1.ones_initializer()
        return mtf.get_variable(x.mesh, "limit", mtf.Shape([]), dtype=x.dtype, initializer=ones)

    def fn(x):
        def body(t):
            inner = mtf.while_loop(lambda u: mtf.less(mtf.reduce_max(u), limit(x) * 2), lambda u: [u + x], [x])[0]
            return [t + inner * limit(x)]

        total = mtf.while_loop(lambda t: mtf.less(mtf.reduce_max(t), limit(x) * 5), body, [mtf.zeros_like(x)])[0]
        return total + limit(x)

    np.testing.assert_array_equal(run(fn, **LAYOUTS[layout])[0], np.full(SIZES, 7.0))  # three times 2, and 1


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
def test_a_convolution_after_a_loop_does_not_share_the_halos_of_the_loop(mesh_impl):
    """Both widen the slices of the same tensor by the same halos, but tensors of a body must not leave the loop."""
    x, f = np.random.default_rng(0).standard_normal((1, 8, 6, 1)), np.ones((3, 3, 1, 1))

    def fn(x, f):
        def convolve():
            return mtf.rename_dimension(mi.ops.conv2d(x, f), "filters", "channels")

        return loop(x, lambda t: convolve(), 3), convolve()

    specs = {"x": ("batch:1,x:8,y:6,channels:1", "float64"), "f": ("fx:3,fy:3,channels:1,filters:1", "float64")}
    total, once = mi.Program(fn, specs, "rows:2", "x:rows", mesh_impl)(x=x, f=f)
    np.testing.assert_allclose(once, tf.nn.conv2d(x, f, 1, "SAME"), rtol=1e-12)
    np.testing.assert_allclose(total, 3 * once, rtol=1e-12)


def _stored(how):
    """Returns a function that uses a tensor of a loop outside of it."""

    def fn(x):
        stored = []

        def body(t):
            stored.append(mtf.tanh(t + x, name="stored"))
            return stored[0]

        y = loop(x, body)
        if how == "after":
            return y + stored[0]
        if how == "returned":
            return y, stored[0]
        return y + loop(x, lambda t: t * stored[0])

    return fn


def _stored_condition(x):
    stored = []

    def condition(i, t):
        stored.append(i * 2)
        return mtf.less(stored[0], 6)

    return mtf.while_loop(condition, lambda i, t: [i + stored[0], t + x], [number(x, 0), x])[1]


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            _stored("after"),
            r"'stored' \(.*\) is in the body of 'while_loop', but 'add_\d', which is not there, reads it",
        ),
        (
            _stored("returned"),
            r"'stored' \(.*\) is in the body of 'while_loop', but the program returns it\. Fix: return",
        ),
        (_stored("in a loop"), r"is in the body of 'while_loop', but 'while_loop_1', which is not there, reads it"),
        (_stored_condition, r"is in the condition of 'while_loop', but 'add\w*', which is not there, reads it"),
    ],
)
def test_a_tensor_of_a_loop_is_refused_elsewhere(fn, message):
    with pytest.raises(mi.NotSupportedError, match=message):
        run(fn)


def test_an_assignment_in_a_nested_loop_is_refused():
    def fn(x):
        variable = mtf.get_variable(x.mesh, "sum", x.shape, dtype=x.dtype, initializer=tf.zeros_initializer())

        def inner(t):
            mtf.assign(variable, t)
            return t

        return loop(x, lambda t: loop(x, inner))

    with pytest.raises(mi.NotSupportedError, match=r"while_loop '.*': its body assigns to a variable"):
        run(fn)


def test_sums_over_micro_batches_in_a_loop_are_refused():
    def fn(x):
        with in_pass(FirstPass()) as first:
            loop(x, lambda t: t * mi.ops.over_batch(mtf.reduce_sum(t)))
        return tuple(first.sums)

    with pytest.raises(mi.NotSupportedError, match=r"over_batch: 'over_batch' is in the body of 'while_loop'.*outside"):
        run(fn)


def test_a_sum_over_micro_batches_that_depends_on_another_through_a_loop_is_refused():
    def fn(x):
        with in_pass(FirstPass()) as first:
            total = mi.ops.over_batch(mtf.reduce_sum(x))
            mi.ops.over_batch(mtf.reduce_sum(loop(x, lambda t: t * total)))
        return tuple(first.sums)

    with pytest.raises(mi.NotSupportedError, match="depends on another sum over the batch"):
        run(fn)


def test_layout_changes_in_a_loop_are_reported():
    def fn(x):
        return loop(x, lambda t: mi.ops.scatter_slices(mi.ops.gather_slices(t + x, ["x"]) * 2, ["x"]))

    changes = mi.Program(fn, {"x": SHAPE}, "rows:2", "x:rows").changes
    assert [(change.gathered, change.scattered) for change in changes] == [(("x",), ()), ((), ("x",))]


def test_faults_of_a_layout_in_a_nested_loop_are_reported():
    def body(t):
        return mi.ops.softmax(t, t.shape.dims[-1])

    with pytest.raises(mi.LayoutError, match="cannot split 'y'"):
        run(lambda x: loop(x, lambda t: loop(x, body)), mesh_shape="cols:2", layout="y:cols")
