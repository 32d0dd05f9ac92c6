"""Every public function of `mtf` after producers equals TensorFlow on whole tensors, under every kind of layout.

For every function of the result t of a producer, a test compares the value and the gradient with respect to t, and
after a third of the producers the second derivative with respect to t. For the sum of all losses, it compares the
gradients with respect to all inputs and variables of the producer. Each function occurs once with each producer, an
elementwise function with each third one, under a layout that rotates.
"""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_layout, parse_shape
from tests.engine.harness import difference, on, program_class, set_variables
from tests.engine.ops.differentiated import CONSTANTS
from tests.engine.upstream import functions_page, other_functions
from tests.engine.upstream.functions import ELEMENTWISE, FUNCTIONS, axis_of
from tests.engine.upstream.layers import LAYERS
from tests.engine.upstream.producers import PRODUCERS

mtf = mi.mtf

# x:8 and y:4 over 3 are slices of 3, 3, 2 and of 2, 2, 0; channels:4 over 3 of 2, 2, 0; batch:2 over 3 of 1, 1, 0.
SETUPS = {
    "whole": ("", "", "stacked"),
    "2x2": ("rows:2,cols:2", "x:rows,y:cols", "stacked"),
    "2x2 on devices": ("rows:2,cols:2", "x:rows,y:cols", "placement"),
    "uneven": ("rows:3,cols:3", "x:rows,y:cols", "stacked"),
    "uneven on devices": ("rows:3,model:2", "x:rows,channels:model", "placement"),
    "uneven in turns": ("rows:3,cols:3", "x:rows,y:cols", "in turns"),
    "uneven batch": ("cores:3,model:3", "batch:cores,channels:model", "stacked"),
}
PRODUCER = "gradients of the producer"
TOLERANCES = {"cast": 1e-6, "to_float": 1e-6}  # numbers that are float32 in between


def _weights(sizes):
    return np.cos(np.arange(int(np.prod(sizes)))).reshape(sizes)


@functools.cache
def _produced(producer):
    """Returns the inputs and variables of a producer as constants, and its result, from TensorFlow."""
    values = {name: tf.constant(value) for name, value in producer.values().items()}
    return values, producer.reference(*values.values())


@functools.cache
def _reference(producer, function, place):
    """Returns TensorFlow's value, the gradient g with respect to the argument, and the gradient of `sum(g^3)`."""
    _, t = _produced(producer)
    with tf.GradientTape() as outer:
        outer.watch(t)
        with tf.GradientTape() as inner:
            inner.watch(t)
            y = function.reference(t, place)
            total = tf.reduce_sum(y * _weights(y.shape))
        first = inner.gradient(total, t, unconnected_gradients="zero")
        total = tf.reduce_sum(first**3)
    return [value.numpy() for value in (y, first, outer.gradient(total, t, unconnected_gradients="zero"))]


@functools.cache
def _backward(producer):
    """Returns the gradients of a producer as a function of its inputs and the gradient of its result."""

    @tf.function(autograph=False)  # some operations have no gradient in eager mode
    def backward(values, dt):
        inputs = [value for name, value in zip(producer.values(), values) if name not in CONSTANTS]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            t = producer.reference(*values)
        return tape.gradient(t, inputs, dt, unconnected_gradients="zero")

    return backward


def _derivatives(y, t, twice):
    """Returns the loss of a value, and the value with its derivatives with respect to `t`, as in `_reference`.

    The second derivative is left out unless `twice`.
    """
    weights = tf.constant(_weights([dim.size for dim in y.shape.dims]))
    loss = mtf.reduce_sum(y * mtf.import_tf_tensor(y.mesh, weights, y.shape))
    (first,) = mtf.gradients([loss], [t])
    derivatives = [first]
    if twice:
        derivatives += mtf.gradients([mtf.reduce_sum(first * first * first)], [t]) if first is not None else [None]
    return loss, (y, *(mtf.zeros_like(t) if dt is None else dt for dt in derivatives))


def check(producer, functions, twice, setup):
    """Asserts that functions of a producer's result equal TensorFlow's, those of `twice` with second derivatives."""
    (values, whole), places = _produced(producer), {}

    def fn(**tensors):
        t = producer.fn(**tensors)
        variables = {v.name: v.outputs[0] for v in t.graph.trainable_variables}
        inputs = [value for name, value in tensors.items() if name not in CONSTANTS]
        inputs += [variables[name] for name in producer.variables]
        shape = [(dim.name, dim.size) for dim in t.shape.dims]
        losses, results = [mtf.reduce_sum(t * t)], {}
        for function in functions:
            if function.accepts(shape):
                places[function] = axis_of(shape)
                loss, results[function.name] = _derivatives(function.fn(t), t, function in twice)
                losses.append(loss)
        gradients = mtf.gradients([mtf.add_n(losses)], inputs)
        results[PRODUCER] = tuple(mtf.zeros_like(x) if dx is None else dx for x, dx in zip(inputs, gradients))
        return results

    specs = {name: (shape, "int32" if name == "labels" else "float64") for name, shape in producer.shapes.items()}
    mesh_shape, layout, mesh_impl = SETUPS[setup]
    program_type = program_class(producer, setup)
    program = program_type(fn, specs, mesh_shape, layout, devices=["CPU:0", "CPU:1"], **on(mesh_impl, mesh_shape))
    set_variables(program, {name: values[name] for name in producer.variables})
    results = program(**{name: values[name] for name in producer.shapes})
    failures, total = [], 2 * whole
    for function, place in places.items():
        expected = _reference(producer, function, place)
        total += expected[1]
        number = len(results[function.name])
        failures += differences(function.name, results[function.name], expected[:number])
    expected = _backward(producer)(list(values.values()), total)
    failures += differences(PRODUCER, results[PRODUCER], [value.numpy() for value in expected])
    assert not failures, "differences of value, gradient and second derivative:\n" + "\n".join(failures)


def differences(name, values, expected):
    """Returns a text with the differences if one of them is too large, else nothing."""
    tolerance = TOLERANCES.get(name, 1e-9)
    shapes = [(list(value.shape), list(each.shape)) for value, each in zip(values, expected, strict=True)]
    if any(shape != wanted for shape, wanted in shapes):
        return [f"{name}: shapes {shapes}"]
    # Some results are 0 up to rounding, such as the logarithm of a sum of probabilities.
    worst = [
        min(float(difference(value, each)), float(np.abs(value - each).max() / 1e-6))
        for value, each in zip(values, expected, strict=True)
    ]
    return [] if max(worst) <= tolerance else [f"{name}: {worst}"]


def _splits(producer, setup):
    dims = {name for shape in producer.shapes.values() for name, _ in parse_shape(shape)}
    return all(dim in dims for dim, _ in parse_layout(SETUPS[setup][1]))


def _functions_after(number):
    """Returns the functions to test after the producer with a number: a third of the elementwise ones, and all others.

    All elementwise functions are lowered in the same way, so three producers in a row have each of them once.
    """
    third = ELEMENTWISE[number % 3 :: 3]
    return [function for function in FUNCTIONS if function in third or function not in ELEMENTWISE]


def _table():
    """Yields (producer, setup, functions, functions with second derivatives).

    Each function occurs once after a producer, under a rotating setup, and after each third producer with its second
    derivative.
    """
    for shift, producer in enumerate(PRODUCERS):
        setups = [setup for setup in SETUPS if _splits(producer, setup)]
        for number, setup in enumerate(setups):
            rotated = [
                f for place, f in enumerate(_functions_after(shift)) if (place + shift // 3) % len(setups) == number
            ]
            twice = rotated[(shift // 3 + number) % 3 :: 3]
            yield pytest.param(producer, setup, rotated, twice, id=f"{producer}-{setup}")


def test_all_pairs_of_a_function_and_a_producer_or_a_setup_occur():
    rows = [(f, row.values[0], row.values[1]) for row in _table() for f in row.values[2]]
    others = [f for f in FUNCTIONS if f not in ELEMENTWISE]
    assert {(f, producer) for f, producer, _ in rows} >= {(f, producer) for f in others for producer in PRODUCERS}
    assert {(f, setup) for f, _, setup in rows} == {(f, setup) for f in FUNCTIONS for setup in SETUPS}
    assert min(collections.Counter(f for f, _, _ in rows).values()) >= len(PRODUCERS) // 3
    twice = collections.Counter(f for row in _table() for f in row.values[3])
    assert min(twice[f] for f in FUNCTIONS) >= 3


@pytest.mark.mostly_slow(fast=0.02)
@pytest.mark.parametrize(("producer", "setup", "functions", "twice"), list(_table()))
def test_every_function_after_producers(producer, setup, functions, twice):
    check(producer, functions, twice, setup)


def _public(module):
    """Returns the names of the public functions of a module of mesh_tensorflow; this package replaces some of them."""
    functions = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return {
        name
        for name, function in functions.items()
        if callable(function)
        and not isinstance(function, type)
        and getattr(function, "__module__", "").startswith(("mesh_tensorflow", "mtf_imaging.engine.upstream"))
    }


@pytest.mark.parametrize(
    ("module", "rows", "others"),
    [
        (mtf, {function.public_name for function in FUNCTIONS}, other_functions.NOT_FUNCTIONS_OF_TENSORS),
        (mtf.layers, {layer.public_name for layer in LAYERS}, other_functions.LAYERS),
    ],
    ids=["mtf", "mtf.layers"],
)
def test_every_public_function_has_a_row_or_a_reason(module, rows, others):
    mi.Program  # noqa: B018 - replaces some of the functions
    public = _public(module)
    assert len(public) > 40
    assert sorted(public - rows - others.keys()) == []
    assert sorted((rows | others.keys()) - public) == []
    assert sorted(rows & others.keys()) == []


@pytest.mark.slow
def test_the_page_of_functions_is_up_to_date():
    message = "Fix: python -m tests.engine.upstream.functions_page"
    assert functions_page.PAGE.read_text() == functions_page.text(), message
