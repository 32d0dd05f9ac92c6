"""Values and derivatives of functions with several factors equal TensorFlow's, whatever dimensions the factors have."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.engine.program.tracing import trace_only
from mtf_imaging.engine.upstream.selections import Gather
from tests.engine.exchanges import check_exchanges
from tests.engine.harness import program_class
from tests.engine.upstream import factors
from tests.engine.upstream.factors import SIZES, aligned
from tests.engine.upstream.functions import FUNCTIONS, axis_of
from tests.engine.upstream.test_functions import differences

mtf = mi.mtf
IMPLS = "stacked", "placement"
DEVICES = ["CPU:0", "CPU:1", "CPU:2"]
WRONG = "differences of value, gradients and second derivatives:\n"
# Shapes and layouts of one tensor; the axis of a function is x or the last dimension.
TENSORS = [
    ("x:5", "x:rows"),
    ("p:4,x:5,q:3", "x:rows,q:cols"),
    ("p:4,x:8,q:2", "p:rows,x:cols"),
    ("p:2,q:5", "q:cols,p:rows"),
    ("x:6,p:5", "x:cols,p:rows"),
    ("p:4,x:6,q:3", "p:rows,q:cols"),
    ("x:4,p:5", "p:cols"),
    ("p:5", ""),
    ("", ""),
]


def _weights(dims):
    """Returns different numbers for a tensor with dimensions {name: size}, which do not depend on their order."""
    names = sorted(dims)
    numbers = np.cos(np.arange(np.prod([*dims.values()], dtype=int)) + len(dims))
    return numbers.reshape([dims[name] for name in names]).transpose([names.index(name) for name in dims])


def _dims(x):
    return dict(zip(x.shape.dimension_names, x.shape.to_integer_list))


def _imported(x):
    """Returns a constant tensor with the dimensions of `x`, in another order."""
    dims = dict(sorted(_dims(x).items()))
    shape = mtf.Shape([mtf.Dimension(*dim) for dim in dims.items()])
    return mtf.import_tf_tensor(x.mesh, tf.constant(_weights(dims)), shape)


def _two_derivatives(y, tensors):
    """Returns a value, its gradients, and their gradients also with respect to the gradient of the value."""
    dy = _imported(y)
    first = mtf.gradients([mtf.reduce_sum(y * dy)], tensors)
    first = [mtf.zeros_like(x) if dx is None else dx for x, dx in zip(tensors, first, strict=True)]
    total = mtf.add_n([mtf.reduce_sum(dx * _imported(dx)) for dx in first])
    inputs = [*tensors, dy]
    second = [mtf.zeros_like(x) if g is None else g for x, g in zip(inputs, mtf.gradients([total], inputs))]
    return [y, *first, *second]


def _reference(fn, values, dy, weights):
    """Returns the same derivatives from TensorFlow; `weights` are those of the gradients of the values."""
    values, dy = [tf.constant(value) for value in values], tf.constant(dy)
    with tf.GradientTape() as outer:
        outer.watch([*values, dy])
        with tf.GradientTape() as inner:
            inner.watch(values)
            y = tf.broadcast_to(fn(*values), dy.shape)
            total = tf.reduce_sum(y * dy)
        first = [tf.convert_to_tensor(dx) for dx in inner.gradient(total, values, unconnected_gradients="zero")]
        total = tf.add_n([tf.reduce_sum(dx * own) for dx, own in zip(first, weights, strict=True)])
    return [y, *first, *outer.gradient(total, [*values, dy], unconnected_gradients="zero")]


def _call(functions, scenario, tensors):
    """Yields the inputs and the result of each function of several factors."""
    for function in functions:
        kept = [mtf.Dimension(dim, SIZES[dim]) for dim in scenario.kept(function)]
        inputs = [tensors[name] for name in function.factors]
        yield inputs, function.fn(*inputs, kept=kept)


def _specs(scenario):
    return {name: (",".join(f"{dim}:{SIZES[dim]}" for dim in scenario.dims(name)), "float64") for name in "abc"}


def check_factors(scenario, functions, mesh_impl):
    """Asserts that functions of several factors equal TensorFlow's; on devices, also that their exchanges are known."""
    rng = np.random.default_rng(scenario.number)
    shapes = {name: {dim: SIZES[dim] for dim in scenario.dims(name)} for name in "abc"}
    values = {name: rng.uniform(0.5, 2, [*dims.values()]) for name, dims in shapes.items()}
    dims = {}

    def fn(**tensors):
        results = {}
        for function, (inputs, y) in zip(functions, _call(functions, scenario, tensors), strict=True):
            own = _two_derivatives(y, inputs)
            dims[function] = [_dims(x) for x in own]
            # The planner does not know which tensors a program returns, so an operation reads them.
            results[function.name] = tuple(x * 1.0 for x in own)
        return results

    specs = _specs(scenario)
    options = factors.MESH, scenario.layout, mesh_impl, DEVICES
    program = program_class(scenario, mesh_impl)(fn, specs, *options)
    results = program(**values)
    if mesh_impl == "placement":
        check_exchanges(program, fn, specs)
    failures = []
    for function in functions:
        axes = [place for place, dim in enumerate(SIZES) if dim not in scenario.kept(function)]
        inputs = [aligned(values[name], [*shapes[name]]) for name in function.factors]
        weights = [aligned(_weights(shapes[name]), [*shapes[name]]) for name in function.factors]
        dy = aligned(_weights(dims[function][0]), [*dims[function][0]])
        expected = _reference(functools.partial(function.reference, axes=axes), inputs, dy, weights)
        own = [aligned(value, [*each]) for value, each in zip(results[function.name], dims[function], strict=True)]
        failures += differences(function.name, own, [value.numpy() for value in expected])
    assert not failures, WRONG + "\n".join(failures)


def check_tensor(shape, layout, functions, mesh_impl):
    """Asserts that functions of one tensor equal TensorFlow's."""
    dims, dy_dims = parse_shape(shape), {}
    x = np.random.default_rng(len(shape)).uniform(-1.5, 1.5, [size for _, size in dims])

    def fn(x):
        results = {}
        for function in functions:
            own = _two_derivatives(function.fn(x), [x])
            dy_dims[function] = _dims(own[0])
            results[function.name] = tuple(own[:-1]), mtf.transpose(own[-1], own[0].shape)
        return results

    program = mi.Program(fn, {"x": (shape, "float64")}, factors.MESH, layout, mesh_impl, DEVICES)
    results, failures = program(x=x), []
    for function in functions:
        expected = _reference(
            lambda v, f=function: f.reference(v, axis_of(dims)),
            [x],
            _weights(dy_dims[function]),
            [_weights(dict(dims))],
        )
        failures += differences(function.name, tf.nest.flatten(results[function.name]), [e.numpy() for e in expected])
    assert not failures, WRONG + "\n".join(failures)


def _turns(functions, turn):
    return [function for place, function in enumerate(functions) if place % factors.TURNS == turn]


def test_every_pair_of_states_occurs():
    pairs = {pair for scenario in factors.SCENARIOS for pair in factors.pairs_of(scenario.states)}
    assert pairs == factors.legal_pairs().keys()


def _of_several_tensors(fn, specs):
    return {type(op) for op in trace_only(fn, specs).graph.operations if len({*op.inputs}) > 1}


def test_every_operation_of_several_tensors_has_factors():
    known = {
        *(mtf.ConcatOperation, mtf.StackOperation),  # need tensors of the same dimensions
        mtf.GenericGradOperation,  # the gradient of a SlicewiseOperation
        mtf.WhileLoopOperation,  # test_while_loop.py
        Gather,  # test_selections.py
    }
    scenario, functions = factors.SCENARIOS[0], (*factors.FUNCTIONS, *factors.FUNCTIONS_OF_SLICES)
    some = _of_several_tensors(lambda **tensors: [y for _, y in _call(functions, scenario, tensors)], _specs(scenario))
    every = _of_several_tensors(lambda x: [f.fn(x) for f in FUNCTIONS], {"x": ("p:4,x:5,q:3", "float64")})
    assert len(some) > 5
    assert every - some == known, "Fix: add functions with these operations to tests/engine/upstream/factors.py"


def test_every_function_meets_every_split_state_in_its_turn():
    for turn in range(factors.TURNS):
        states = [state for s in factors.SCENARIOS if factors.turn(s) == turn for state in s.states if state.split]
        assert sorted(states) == sorted(state for state in factors.STATES if state.split)


@pytest.mark.parametrize("scenario", factors.SCENARIOS, ids=str)
def test_functions_in_their_turn(scenario):
    mesh_impl = IMPLS[scenario.number % 5 == 0]
    for functions in (factors.FUNCTIONS, factors.FUNCTIONS_OF_SLICES):
        if own := _turns(functions, factors.turn(scenario)):
            check_factors(scenario, own, mesh_impl)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", factors.SCENARIOS, ids=str)
def test_all_functions(scenario):
    for functions in (factors.FUNCTIONS, factors.FUNCTIONS_OF_SLICES):
        check_factors(scenario, functions, IMPLS[scenario.number % 2])


def _accepting(number, functions):
    return [function for function in functions if function.accepts(parse_shape(TENSORS[number][0]))]


@pytest.mark.parametrize("number", range(5))
def test_functions_of_one_tensor(number):
    """Tests each function along a split axis, with or without another split."""
    check_tensor(*TENSORS[number], _accepting(number, FUNCTIONS[number::5]), "stacked")


@pytest.mark.slow
@pytest.mark.parametrize("third", range(3))
@pytest.mark.parametrize("number", range(len(TENSORS)))
def test_all_functions_of_one_tensor(number, third):
    check_tensor(*TENSORS[number], _accepting(number, FUNCTIONS[third::3]), IMPLS[(number + third) % 2])
