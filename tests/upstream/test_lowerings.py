"""Values and derivatives of functions with several factors equal TensorFlow's, whatever dimensions the factors have."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.exchanges import check_exchanges
from tests.harness import difference, program_class
from tests.upstream import factors
from tests.upstream.factors import SIZES, aligned

mtf = mi.mtf


def _weights(dims):
    """Returns different numbers for a tensor with dimensions in the order of `SIZES`."""
    sizes = [SIZES[dim] for dim in dims]
    return np.cos(np.arange(np.prod(sizes, dtype=int)) + len(dims)).reshape(sizes)


def _imported(x):
    """Returns a constant tensor with the dimensions of `x`, in another order."""
    dims = sorted(x.shape.dimension_names)
    shape = mtf.Shape([mtf.Dimension(dim, SIZES[dim]) for dim in dims])
    return mtf.import_tf_tensor(x.mesh, tf.constant(_weights(dims)), shape)


def _two_derivatives(function, tensors, kept):
    """Returns the value, its gradients, and their gradients also with respect to the gradient of the value."""
    y = function.fn(*tensors, kept=kept)
    dy = _imported(y)
    first = mtf.gradients([mtf.reduce_sum(y * dy)], tensors)
    first = [mtf.zeros_like(x) if dx is None else dx for x, dx in zip(tensors, first, strict=True)]
    total = mtf.add_n([mtf.reduce_sum(dx * _imported(dx)) for dx in first])
    inputs = [*tensors, dy]
    second = [mtf.zeros_like(x) if g is None else g for x, g in zip(inputs, mtf.gradients([total], inputs))]
    return [y, *first, *second]


def _reference(function, values, axes, dims):
    """Returns the same derivatives from TensorFlow, of tensors with all dimensions of `SIZES`."""
    values = [tf.constant(value) for value in values]
    dy = aligned(_weights(dims), dims)
    with tf.GradientTape() as outer:
        outer.watch([*values, dy])
        with tf.GradientTape() as inner:
            inner.watch(values)
            y = function.reference(*values, axes=axes)
            y = tf.broadcast_to(y, dy.shape)
            total = tf.reduce_sum(y * dy)
        first = inner.gradient(total, values, unconnected_gradients="zero")
        total = tf.add_n([tf.reduce_sum(dx * np.reshape(_weights(_present(dx)), dx.shape)) for dx in first])
    return [y, *first, *outer.gradient(total, [*values, dy], unconnected_gradients="zero")]


def _present(x):
    return [dim for dim, size in zip(SIZES, x.shape) if size > 1]


def check(scenario, functions, mesh_impl):
    rng = np.random.default_rng(scenario.number)
    names = {name: scenario.dims(name) for name in "abc"}
    values = {name: rng.uniform(0.5, 2, [SIZES[dim] for dim in dims]) for name, dims in names.items()}
    dims = {}

    def fn(**tensors):
        results = {}
        for function in functions:
            kept = [mtf.Dimension(dim, SIZES[dim]) for dim in scenario.kept(function)]
            own = _two_derivatives(function, [tensors[name] for name in function.factors], kept)
            dims[function.name] = [x.shape.dimension_names for x in own]
            # The planner does not know which tensors a program returns, so an operation reads them.
            results[function.name] = tuple(x * 1.0 for x in own)
        return results

    specs = {name: (",".join(f"{dim}:{SIZES[dim]}" for dim in own), "float64") for name, own in names.items()}
    program = program_class(scenario, mesh_impl)(
        fn, specs, factors.MESH, scenario.layout, mesh_impl, devices=["CPU:0", "CPU:1", "CPU:2"]
    )
    results = program(**values)
    check_exchanges(program, fn, specs)
    failures = []
    for function in functions:
        own = dims[function.name]
        axes = [place for place, dim in enumerate(SIZES) if dim not in scenario.kept(function)]
        wanted = _reference(
            function, [aligned(values[n], names[n]) for n in function.factors], axes, sorted(own[0])
        )
        worst = [
            difference(aligned(value, each), expected.numpy())
            for value, each, expected in zip(results[function.name], own, wanted, strict=True)
        ]
        if max(worst) > 1e-11:
            failures.append(f"{function}: {worst}")
    assert not failures, "differences of value, gradients and second derivatives:\n" + "\n".join(failures)


def _turns(functions, turn):
    return [function for place, function in enumerate(functions) if place % factors.TURNS == turn]


def test_every_pair_of_states_occurs():
    pairs = {pair for scenario in factors.SCENARIOS for pair in factors.pairs_of(scenario.states)}
    assert pairs == factors.legal_pairs().keys()


def test_every_function_meets_every_split_state_in_its_turn():
    for turn in range(factors.TURNS):
        states = [state for s in factors.SCENARIOS if factors.turn(s) == turn for state in s.states if state.split]
        assert sorted(states) == sorted(state for state in factors.STATES if state.split)


@pytest.mark.parametrize("scenario", factors.SCENARIOS, ids=str)
def test_functions_in_their_turn(scenario):
    mesh_impl = "placement" if scenario.number % 5 == 0 else "stacked"
    for functions in (factors.FUNCTIONS, factors.FUNCTIONS_OF_SLICES):
        if own := _turns(functions, factors.turn(scenario)):
            check(scenario, own, mesh_impl)


@pytest.mark.slow
@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize("scenario", factors.SCENARIOS, ids=str)
def test_all_functions(scenario, mesh_impl):
    for functions in (factors.FUNCTIONS, factors.FUNCTIONS_OF_SLICES):
        check(scenario, functions, mesh_impl)
