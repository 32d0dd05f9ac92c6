"""Deferred sums: their values, and the messages that carry them."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.engine.meshes.deferred import DeferredSums
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.transport import Transport

MESSAGES = 5


class Recorder(Transport):
    """A transport whose sums multiply by 10, and which records them."""

    def __init__(self):
        super().__init__(ShardGrid.make((2, 2), 4), [0], ["CPU:0"])
        self.sums = []

    def reduce(self, values, axes, reduction, everywhere=True):
        assert reduction == "SUM"
        (value,) = values
        self.sums.append((value.dtype.name, tuple(axes), value.shape.num_elements()))
        return [value * 10]

    def gather(self, values, axis, dim):
        raise AssertionError("a sum does not gather")

    def exchange(self, messages, values):
        raise AssertionError("a sum does not exchange")


def _add(sums, number, shape, dtype="float32", axes=(0, 1)):
    return sums.add([tf.cast(tf.fill([1, *shape], number), dtype)], axes)


def test_nothing_is_sent_before_a_sum_is_read():
    recorder = Recorder()
    sums = DeferredSums(recorder)
    first, second = _add(sums, 1, (2, 3)), _add(sums, 2, (4,))
    assert (first.stack_size, first.slice_shape, first.dtype) == (1, [2, 3], tf.float32)
    assert recorder.sums == []
    np.testing.assert_array_equal(second.tensor_list[0], np.full((1, 4), 20))
    sent = len(recorder.sums)
    np.testing.assert_array_equal(first.tensor_list[0], np.full((1, 2, 3), 10))
    assert len(recorder.sums) == sent
    third = _add(sums, 3, ())
    np.testing.assert_array_equal(third.tensor_list[0], [30])
    assert len(recorder.sums) == sent + 1


def test_dtypes_and_mesh_dimensions_are_not_mixed():
    recorder = Recorder()
    sums = DeferredSums(recorder)
    kinds = [("float32", (0, 1)), ("bfloat16", (0, 1)), ("float32", (1,)), ("float32", (1, 0, 1))]
    values = [_add(sums, i, (i + 1, 2), *kind) for i, kind in enumerate(kinds * 3)]
    for i, value in enumerate(values):
        np.testing.assert_array_equal(tf.cast(value.tensor_list[0], tf.float64), np.full((1, i + 1, 2), 10 * i))
    assert {(dtype, axes) for dtype, axes, _ in recorder.sums} == {
        ("float32", (0, 1)),
        ("bfloat16", (0, 1)),
        ("float32", (1,)),
    }


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60))
def test_a_few_messages_carry_all_sums_in_order(sizes):
    recorder = Recorder()
    sums = DeferredSums(recorder)
    values = [_add(sums, i, (size,)) for i, size in enumerate(sizes)]
    values[-1].tensor_list  # noqa: B018 - reading creates the sums
    for i, (value, size) in enumerate(zip(values, sizes, strict=True)):
        np.testing.assert_array_equal(value.tensor_list[0], np.full((1, size), 10 * i))
    sent = [size for _, _, size in recorder.sums]
    assert len(sent) <= MESSAGES
    assert sum(sent) == sum(sizes)
    ends = np.cumsum(sizes)
    assert set(np.cumsum(sent)) <= set(ends)  # consecutive sums share a message
    assert max(sent) <= math.ceil(sum(sizes) / MESSAGES) + max(sizes)


@pytest.mark.parametrize(
    ("sizes", "messages"),
    [
        ([1] * 10, [2] * 5),
        ([1000, 4, 1000, 4, 4], [1000, 1004, 8]),
        ([1, 1, 1000], [1002]),
        ([7], [7]),
        ([5, 5, 5], [5, 5, 5]),
    ],
)
def test_messages_have_about_equal_sizes(sizes, messages):
    recorder = Recorder()
    sums = DeferredSums(recorder)
    [value, *_] = [_add(sums, 0, (size,)) for size in sizes]
    value.tensor_list  # noqa: B018 - reading creates the sums
    assert [size for _, _, size in recorder.sums] == messages
