"""The poison of `tests/poison.py` makes an operation that reads the tail of an uneven slice wrong."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests import poison
from tests.engine.harness import difference

mtf = mi.mtf


class NaiveSum(mtf.Operation):
    """A sum over all elements that forgets to mask tails."""

    def __init__(self, x):
        super().__init__([x], name="naive_sum")
        self._outputs = [mtf.Tensor(self, mtf.Shape([]), x.dtype)]

    def lower(self, lowering):
        mesh, (x,) = lowering.mesh_impl(self), self.inputs
        value = mesh.map_stacks(
            lambda stack: tf.reduce_sum(stack, axis=list(range(1, len(stack.shape)))),
            lowering.tensors[x].to_laid_out_tensor(),
        )
        axes = [axis for axis in mesh.split_axes(x.shape) if axis is not None]
        lowering.set_tensor_lowering(self.outputs[0], mesh.allreduce(value, axes, "SUM"))


def _sums(layout, x="x:5,y:4", dtype="float64", mesh_impl="stacked"):
    """Returns the sum of a naive operation, and that of mesh_tensorflow, which runs first and fills the tails."""

    def fn(x):
        y = x * 2
        masked = mtf.reduce_sum(y)
        return NaiveSum(y).outputs[0], masked

    shape = [size for _, size in mi.layout.parse_shape(x)]
    program = mi.Program(fn, {"x": (x, dtype)}, "rows:4,cols:3", layout, mesh_impl)
    return [value.numpy() for value in program(x=np.ones(shape, dtype))]


@pytest.mark.parametrize("mesh_impl", ["stacked", "placement"])
@pytest.mark.parametrize("layout", ["x:rows", "y:cols", "x:rows,y:cols"])
def test_an_operation_that_reads_a_tail_is_wrong(layout, mesh_impl):
    naive, masked = _sums(layout, mesh_impl=mesh_impl)
    assert np.isnan(naive)
    assert masked == 40


def test_integers_are_poisoned_as_well():
    naive, masked = _sums("x:rows", dtype="int32")  # slices of 2, 2, 1 and 0 elements: 3 x 4 in tails
    assert (naive, masked) == (40 + 12 * poison.INTEGER, 40)


def test_even_slices_have_no_tails():
    assert _sums("y:rows") == [40, 40]


def test_even_slices_have_the_same_graph(monkeypatch):
    def num_nodes():
        return mi.Program(lambda x: mtf.reduce_sum(mtf.square(x)), {"x": "x:6,y:4"}, "rows:2", "x:rows").num_nodes

    poisoned = num_nodes()
    monkeypatch.setattr(mi.meshes.ShardMeshImpl, "canonical", mi.meshes.ShardMeshImpl.canonical.original)
    assert num_nodes() == poisoned


def test_infinite_tails():
    with poison.filled_with(-np.inf):
        assert _sums("x:rows") == [-np.inf, 40]


def test_without_poison_an_operation_reads_the_tails_that_the_previous_one_filled():
    with poison.removed():
        assert _sums("x:rows") == [40, 40]


def test_a_difference_that_is_not_a_number_is_infinite():
    assert max(0.0, difference([1, np.nan], np.ones(2))) == np.inf
