"""Computation of one device on its stack, compared with NumPy for each processor, without a layout or a program."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from mtf_imaging.engine.meshes import local

BOXES = [(4,), (2, 3), (3, 1, 2)]  # number of processors of a device along each mesh dimension
boxes = pytest.mark.parametrize("box", BOXES, ids=str)


def _numbers(*shape):
    return np.random.default_rng(0).permutation(int(np.prod(shape))).reshape(shape).astype(float)


def _some(box):
    """Returns every set of mesh dimensions, including the empty set."""
    return [axes for count in range(len(box) + 1) for axes in itertools.combinations(range(len(box)), count)]


def _along(box, axes, *slice_shape):
    """Returns an array `box + slice shape` that varies only along the mesh dimensions `axes`."""
    view = _numbers(*(n if i in axes else 1 for i, n in enumerate(box)), *slice_shape)
    return np.broadcast_to(view, [*box, *slice_shape])


def _stack(view, box):
    return tf.constant(view.reshape(-1, *view.shape[len(box) :]))


@boxes
def test_a_stack_is_the_row_major_order_of_its_grid_view(box):
    values = _numbers(*box, 2, 3)
    view = local.to_grid(_stack(values, box), box)
    np.testing.assert_array_equal(view, values)
    np.testing.assert_array_equal(local.from_grid(view, box), values.reshape(-1, 2, 3))
    np.testing.assert_array_equal(local.from_grid_full(view, box), values.reshape(-1, 2, 3))


@boxes
def test_a_value_stored_once_remains_stored_once(box):
    value = _numbers(1, 2, 3)
    view = local.to_grid(tf.constant(value), box)
    assert view.shape == [*[1] * len(box), 2, 3]
    np.testing.assert_array_equal(local.from_grid(view, box), value)
    everywhere = local.from_grid_full(view, box)
    np.testing.assert_array_equal(everywhere, np.repeat(value, np.prod(box), axis=0))


@boxes
def test_a_view_is_repeated_along_mesh_dimensions_of_size_one(box):
    for axes in _some(box):
        view = _numbers(*(n if i in axes else 1 for i, n in enumerate(box)), 2)
        expected = np.broadcast_to(view, [*box, 2]).reshape(-1, 2)
        np.testing.assert_array_equal(local.from_grid_full(tf.constant(view), box), expected)
        if any(box[axis] > 1 for axis in axes):
            np.testing.assert_array_equal(local.from_grid(tf.constant(view), box), expected)


@boxes
def test_take_at(box):
    values = _numbers(*box, 2)
    for axes in _some(box):
        for at in itertools.product(*(range(box[axis]) for axis in axes)):
            index = [slice(None)] * len(box)
            for axis, i in zip(axes, at, strict=True):
                index[axis] = slice(i, i + 1)
            actual = local.take_at(tf.constant(values), axes, at, box)
            np.testing.assert_array_equal(actual, values[tuple(index)])
    once = tf.constant(values[(slice(1),) * len(box)])
    np.testing.assert_array_equal(local.take_at(once, range(len(box)), [n - 1 for n in box], box), once)


def _matmul(x, w):
    return tf.einsum("bvc,cf->bvf", x, w)


@boxes
def test_fold_call_combines_every_slice_with_its_own_weights(box):
    x = _numbers(*box, 2, 5, 3)
    for axes in _some(box):
        w = _along(box, axes, 3, 4)
        expected = np.einsum("...bvc,...cf->...bvf", x, w).reshape(-1, 2, 5, 4)
        stacks = [_stack(w, box)]
        if not any(box[axis] > 1 for axis in axes):
            stacks.append(stacks[0][:1])  # stored once
        for weights in stacks:
            actual = local.fold_call(_matmul, [_stack(x, box)], [weights], box, axes, 1)
            np.testing.assert_array_equal(actual, expected)


@boxes
def test_fold_call_of_a_value_stored_once(box):
    x = _numbers(1, 2, 5, 3)
    for axes in _some(box):
        w = _along(box, axes, 3, 4)
        actual = local.fold_call(_matmul, [tf.constant(x)], [_stack(w, box)], box, axes, 1)
        expected = np.einsum("bvc,...cf->...bvf", x[0], w).reshape(-1, 2, 5, 4)
        np.testing.assert_array_equal(np.broadcast_to(actual, expected.shape), expected)


@boxes
def test_fold_call_with_two_batch_dimensions_and_two_results(box):
    x, y = _numbers(*box, 2, 3, 5), _numbers(*box, 2, 3, 1)

    def fn(x, y):
        assert x.shape == [x.shape[0], 5]
        return x + y, tf.reduce_sum(x, 1, keepdims=True)

    actual = local.fold_call(fn, [_stack(x, box), _stack(y, box)], [], box, (), 2)
    for value, expected in zip(actual, (x + y, x.sum(-1, keepdims=True)), strict=True):
        np.testing.assert_array_equal(value, expected.reshape(-1, *expected.shape[len(box) :]))


@boxes
def test_fold_sum(box):
    """The result is summed along some mesh dimensions, varies along others, and is equal along the rest."""

    def fn(x, y):
        return tf.einsum("bvc,bvf->cf", x, y)

    for summed, varying in itertools.product(_some(box), repeat=2):
        if set(summed) & set(varying):
            continue
        x, y = (_along(box, summed + varying, 2, 5, n) for n in (3, 4))
        total = np.einsum("...bvc,...bvf->...cf", x, y).sum(summed, keepdims=True)
        expected = np.broadcast_to(total, [*box, 3, 4]).reshape(-1, 3, 4)
        actual = local.fold_sum(fn, [_stack(x, box), _stack(y, box)], box, summed, varying, 1)
        assert actual.shape[0] == (len(expected) if any(box[axis] > 1 for axis in varying) else 1)
        np.testing.assert_array_equal(np.broadcast_to(actual, expected.shape), expected)


FUNCTIONS = {
    "elementwise": (tf.subtract, np.subtract),
    "of a slice": (
        lambda x, y: tf.cumsum(x) * tf.reduce_max(y),
        lambda x, y: np.cumsum(x, 0) * y.max(),
    ),
    "several": (lambda x, y: [tf.reverse(x, [0]), y - x], lambda x, y: [x[::-1], y - x]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_map_slices(name):
    fn, expected_of = FUNCTIONS[name]
    stacks, one = [_numbers(4, 3, 2), -_numbers(4, 3, 2)], _numbers(3, 2) + 0.5
    cases = [
        ([stacks[0], stacks[1]], [True, True]),
        ([stacks[0], one], [True, False]),
        ([one, stacks[1]], [False, True]),
        ([stacks[0], one[np.newaxis]], [True, True]),
        ([one[np.newaxis], one], [True, False]),
    ]
    for args, stacked in cases:
        size = max(len(arg) for arg, is_stack in zip(args, stacked, strict=True) if is_stack)
        pairs = [np.broadcast_to(arg, [size, 3, 2]) for arg in args]
        slices = [expected_of(x, y) for x, y in zip(*pairs, strict=True)]
        actual = local.map_slices(fn, [tf.constant(arg) for arg in args], stacked)
        if isinstance(slices[0], list):
            for value, expected in zip(actual, zip(*slices, strict=True), strict=True):
                np.testing.assert_array_equal(value, expected)
        else:
            np.testing.assert_array_equal(actual, slices)


def test_map_slices_of_a_function_that_cannot_be_vectorized():
    """With a different filter per slice, the function is called once per slice."""
    images, filters = _numbers(3, 1, 6, 1), _numbers(3, 2, 1, 1)
    actual = local.map_slices(
        lambda x, w: tf.nn.conv1d(x, w, 1, "VALID"), [tf.constant(images), tf.constant(filters)], [True, True]
    )
    x, w = images[:, 0, :, 0], filters[:, :, 0, 0]
    expected = x[:, :-1] * w[:, :1] + x[:, 1:] * w[:, 1:]
    np.testing.assert_allclose(actual[:, 0, :, 0], expected)


def test_a_reshape_to_an_earlier_shape_adds_no_node():
    """Operations before and after both reshapes are then neighbors in the graph, so TensorFlow may fuse them."""

    @tf.function(autograph=False)
    def there_and_back(x):
        y = tf.reshape(tf.reshape(x, [3, 2, 4]), [24])
        assert local.reshape(y, x.shape) is x
        return local.reshape(y, [4, 6])

    assert there_and_back(tf.zeros([6, 4])).shape == [4, 6]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_sum_of_pieces_takes_only_existing_elements(size):
    """The first slice has 4 elements; the second one has fewer, and a tail that must not be read."""
    values = _numbers(2, 1, 4, 3)  # [processors, batch, elements, channels]
    stored = values.copy()
    stored[1, :, size:] = np.nan
    pieces = [local.Piece({0: [0]}, [{1: 4}]), local.Piece({0: [1]}, [{1: size}])]
    total = local.fold_sum_of_pieces(lambda x: tf.reduce_sum(x, [0, 1]), [tf.constant(stored)], pieces, [2], [0], [], 1)
    np.testing.assert_allclose(total, [values[0].sum((0, 1)) + values[1, :, :size].sum((0, 1))])
