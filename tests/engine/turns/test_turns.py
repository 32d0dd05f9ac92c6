"""Turns: the values that pass between them, without a program."""

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.engine.meshes.turns import Received, Turns
from mtf_imaging.engine.turns.slicing import slice_early
from mtf_imaging.engine.turns.store import Store, Value


@pytest.fixture
def turns():
    """Two rows of four turns each; the rows compute at the same time."""
    with tf.Graph().as_default():
        turns = Turns([4, 2], [0])
        turns.begin()
        yield turns


def test_a_strip_of_a_reshaped_tensor_without_elements_is_stored(turns):
    """A part of a dimension of size 0 has no place before a reshape."""
    x = tf.zeros([0, 4]) + tf.cast(turns.places[0], tf.float32)
    strip = tf.slice(tf.reshape(x, [0, 2, 2]), [0, 0, 0], [0, 2, 2])
    received = turns.receive(strip, 0, [None, 0, 1, 2], 0)
    slice_early(turns, {x.ref()})
    mark = turns.marks[received.op.name]
    assert isinstance(mark, Received)
    assert mark.source.shape == [0, 2, 2]
    assert not turns.computed


@pytest.mark.parametrize(("keys", "axes"), [((0, 0, 0, 0), set()), ((1, 0, 0, 0), {0}), ((0, 0, 0, 1), {0})])
def test_a_value_differs_between_turns_if_it_does_in_another_process(turns, keys, axes):
    assert turns.axes_of(turns.alike(tf.constant(1.0), [], keys)) == axes


def test_a_kept_value_does_not_change_with_the_file(tmp_path):
    """TensorFlow's slice of the first rows has the memory of its input: pages of the file."""
    shape = (256, 2048)
    store = Store({"x": Value(shape, tf.float32, 1, 3), "row": Value((1, 2048), tf.float32, 1, 3)}, 2, str(tmp_path))
    store.open()
    store.put("x", 0, tf.ones(shape))
    x = store.fetch("x", 0, [(0, 4 * 256 * 2048)]).result()
    store.put("row", 0, tf.slice(x, [0, 0], [1, 2048]))
    store.settle(0)
    store.put("x", 0, tf.zeros(shape))
    store.settle(0)
    np.testing.assert_array_equal(store.fetch("row", 0, []).result(), np.ones([1, 2048]))
