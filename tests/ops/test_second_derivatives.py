"""Second derivatives of all operations of `mi.ops`, including mixed ones, equal those of nested TensorFlow tapes."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.layout import parse_layout, parse_shape
from mtf_imaging.ops.over_batch import SecondPass, in_pass
from tests.exchanges import check_exchanges
from tests.harness import assert_all_pairs, difference, pairwise, program_class, set_variables
from tests.ops.differentiated import CONSTANTS, ROWS

mtf = mi.mtf

# Uneven slices of x have 3, 3 and 2 voxels, those of y and channels have 2, 2 and 0, and those of the batch 1, 1 and 0.
LAYOUTS = {
    "whole": ("", ""),
    "spatial": ("rows:2,cols:2", "x:rows,y:cols"),
    "channels": ("cores:2,model:2", "batch:cores,channels:model"),
    "filters": ("model:2,filters:2", "channels:model,out:filters"),
    "uneven": ("rows:3,cols:3", "x:rows,y:cols"),
    "uneven channels": ("cores:3,model:3", "batch:cores,channels:model"),
}
NOT_DIFFERENTIABLE = {"combined_non_max_suppression", "master_dtype", "slices_per_dimension", "step", "top_k"}


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

        @tf.function(autograph=False)
        def run():
            with tf.GradientTape() as outer:
                outer.watch(inputs)
                with tf.GradientTape() as inner:
                    inner.watch(inputs)
                    total = tf.reduce_sum(row.reference(*values.values()) ** 3)
                first = inner.gradient(total, inputs)
                total = tf.add_n([tf.reduce_sum(g**3) for g in first])
            return *first, *outer.gradient(total, inputs, unconnected_gradients="zero")

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
    program, values = program_type(fn, inputs, mesh_shape, layout, mesh_impl), row.values()
    set_variables(program, {name: values[name] for name in row.variables})
    results = [value.numpy() for value in program(**{name: values[name] for name in row.shapes})]
    check_exchanges(program, fn, inputs)
    return results


def _product():
    """Yields all rows (row of `ROWS`, key of `LAYOUTS`, mesh implementation)."""
    for row in ROWS:
        dims = {dim for shape in row.shapes.values() for dim, _ in parse_shape(shape)}
        for layout, (_, rules) in LAYOUTS.items():
            if layout != "filters" or "out" in dims:
                is_split = any(dim in dims for dim, _ in parse_layout(rules))
                yield from ((row, layout, impl) for impl in (("stacked", "placement") if is_split else ("stacked",)))


def _of_an_operation(row):
    differentiated, layout, mesh_impl = row
    return differentiated.op, layout, mesh_impl


def _thinned():
    """Returns all rows under uneven layouts on one device, and every operation under every layout and on every mesh."""
    table = list(_product())
    uneven = [row for row in table if row[1].startswith("uneven") and row[2] == "stacked"]
    return uneven + pairwise([row for row in table if row not in uneven], _of_an_operation)


def test_all_pairs_of_an_operation_a_layout_and_a_mesh_implementation_occur():
    assert_all_pairs(_thinned(), _product(), _of_an_operation)


def _table():
    for row, layout, mesh_impl in _thinned():
        dims = {dim for shape in row.shapes.values() for dim, _ in parse_shape(shape)}
        mesh_shape, rules = LAYOUTS[layout]
        rules = ",".join(f"{dim}:{onto}" for dim, onto in parse_layout(rules) if dim in dims)
        marks = [] if (layout, mesh_impl) == ("uneven", "stacked") else [pytest.mark.slow]
        yield pytest.param(row, mesh_shape, rules, mesh_impl, id=f"{row}-{layout}-{mesh_impl}", marks=marks)


@pytest.mark.mostly_slow(fast=0.3)
@pytest.mark.parametrize(("row", "mesh_shape", "layout", "mesh_impl"), list(_table()))
def test_derivatives_equal_tensorflow(row, mesh_shape, layout, mesh_impl):
    values = derivatives(row, mesh_shape, layout, mesh_impl)
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
