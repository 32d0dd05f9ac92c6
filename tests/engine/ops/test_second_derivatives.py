"""Second derivatives of all operations of `mi.ops`, including mixed ones, equal those of nested TensorFlow tapes."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.engine.ops.over_batch import SecondPass, in_pass
from tests.engine.exchanges import check_exchanges
from tests.engine.harness import difference, on, program_class, set_variables
from tests.engine.ops.differentiated import CONSTANTS, ROWS, with_two_batch_dimensions

mtf = mi.mtf

# Slices of x:8, y:4, z:4 and channels:4 over 3 are 3, 3, 2 and 2, 2, 0; those of the batch 1, 1, 0.
MESH = "rows:2,cols:3"
WHOLE = {*("fx", "fy", "fz", "px", "py", "pz", "one", "per_group", "classes")}  # dimensions that cannot be split
NOT_DIFFERENTIABLE = {
    "combined_non_max_suppression",
    "expect_labels",
    "master_dtype",
    "slices_per_dimension",
    "step",
    "top_k",
}


def test_every_operation_has_a_row():
    assert {row.op for row in ROWS} == set(mi.ops.__all__) - NOT_DIFFERENTIABLE


def operation_classes():
    """Returns the classes of all operations of `mtf_imaging`, with their base classes."""

    def derived(cls):
        return {cls}.union(*(derived(sub) for sub in cls.__subclasses__()))

    return {cls for cls in derived(mtf.Operation) if cls.__module__.startswith("mtf_imaging.")}


def test_every_operation_has_a_gradient():
    """`mtf.gradients` drops every path through an operation that declares that it has no gradient."""
    classes = operation_classes()
    assert len(classes) > 20
    assert [cls.__name__ for cls in classes if cls.has_gradient is not mtf.Operation.has_gradient] == []
    bases = {base for cls in classes for base in cls.__bases__}
    assert [cls.__name__ for cls in classes - bases if cls.gradient is mtf.Operation.gradient] == []


_references = {}


def reference(row):
    """Returns TensorFlow's gradients `g` of `sum(y^3)`, and the gradients of `sum(g^3)`."""
    if str(row) not in _references:
        values = {name: tf.constant(value) for name, value in row.values().items()}
        inputs = [value for name, value in values.items() if name not in CONSTANTS]

        def run():
            with tf.GradientTape() as outer:
                outer.watch(inputs)
                with tf.GradientTape() as inner:
                    inner.watch(inputs)
                    total = tf.reduce_sum(row.reference(*values.values()) ** 3)
                first = inner.gradient(total, inputs)
                total = tf.add_n([tf.reduce_sum(g**3) for g in first])
            return *first, *outer.gradient(total, inputs, unconnected_gradients="zero")

        if "conv" in row.op:  # TensorFlow differentiates convolutions twice only in a graph
            run = tf.function(run, autograph=False)
        _references[str(row)] = [value.numpy() for value in run()]
    return _references[str(row)]


def two_derivatives(row):
    """Returns the arguments of a `Program` that computes the same derivatives as `reference`."""

    def fn(**tensors):
        y = row.fn(**tensors)
        inputs = [value for name, value in tensors.items() if name not in CONSTANTS]
        variables = {v.name: v.outputs[0] for v in y.graph.trainable_variables}
        inputs += [variables[name] for name in row.variables]
        first = mtf.gradients([mtf.reduce_sum(y * y * y)], inputs)
        second = mtf.gradients([mtf.add_n([mtf.reduce_sum(g * g * g) for g in first])], inputs)
        return *first, *second

    return fn, {name: (shape, "int32" if name == "labels" else "float64") for name, shape in row.shapes.items()}


def derivatives(row, mesh_shape="", layout="", mesh_impl="stacked"):
    """Returns the derivatives from a program, after comparing its exchanges with those that the planner predicts."""
    fn, inputs = two_derivatives(row)
    program_type = program_class(row, mesh_shape, layout, mesh_impl)
    # The planner counts the halos of processors that are all on one device, or all on devices of their own.
    devices = [f"CPU:{number}" for number in range(6)] if mesh_impl == "placement" else None
    program = program_type(fn, inputs, mesh_shape, layout, devices=devices, **on(mesh_impl, mesh_shape))
    values = row.values()
    set_variables(program, {name: values[name] for name in row.variables})
    results = [value.numpy() for value in program(**{name: values[name] for name in row.shapes})]
    check_exchanges(program, fn, inputs)
    return results


def layouts(row, steps):
    """Returns layouts that split every dimension of a row over either mesh dimension, with the one `steps` before."""
    dims = dict.fromkeys(dim for shape in row.shapes.values() for dim, _ in parse_shape(shape))
    dims = [dim for dim in dims if dim not in WHOLE]
    pairs = [(dims[i - step], dims[i]) for step in steps if step <= len(dims) for i in range(len(dims))]
    return [f"{a}:rows,{b}:cols" if a != b else f"{a}:rows" for a, b in pairs]


def _table():
    """Yields each row under its layouts: one of them is fast, and every third one has a device for each processor."""
    for number, row in enumerate(ROWS):
        row = with_two_batch_dimensions(row)
        own = layouts(row, (1, 3) if number % 2 else (1,))
        for place, layout in enumerate(own):
            mesh_impl = "placement" if place % 3 == 2 else "stacked"
            marks = [] if place == number % len(own) else [pytest.mark.slow]
            yield pytest.param(row, layout, mesh_impl, id=f"{row}-{layout}", marks=marks)
        layout, way = own[number // 2 % len(own)], ("in turns", "half in turns")[number % 2]
        yield pytest.param(row, layout, way, id=f"{row}-{layout}-{way}", marks=[pytest.mark.slow])


@pytest.mark.parametrize(("row", "layout", "mesh_impl"), list(_table()))
def test_derivatives_equal_tensorflow(row, layout, mesh_impl):
    values = derivatives(row, MESH, layout, mesh_impl)
    worst = [difference(value, wanted) for value, wanted in zip(values, reference(row), strict=True)]
    assert max(worst) <= 1e-11, f"first and second gradients differ by {worst}"


def test_second_derivatives_through_over_batch_are_refused_in_micro_batches():
    def fn(x, whole):
        with in_pass(SecondPass([whole], 2)):
            y = mtf.square(mi.ops.over_batch(mtf.reduce_sum(x)))
        (first,) = mtf.gradients([y], [x])
        return first if once else mtf.gradients([mtf.reduce_sum(mtf.square(first))], [x])[0]

    inputs, once = {"x": "batch:2", "whole": ""}, True
    np.testing.assert_array_equal(mi.Program(fn, inputs)(x=[1, 2], whole=7), [28, 28])
    once = False
    with pytest.raises(mi.NotSupportedError, match=r"^over_batch: '.*' is a gradient through ") as error:
        mi.Program(fn, inputs)
    assert str(error.value).partition(" is a gradient ")[2] == (
        "through a sum over 2 micro-batches, so it cannot be differentiated again. "
        "Fix: use micro_batches=1, or a loss that is a mean over examples."
    )
    assert error.value.settings == ("micro_batches",)
