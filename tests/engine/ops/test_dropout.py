"""Dropout masks are drawn in pieces when they are needed, which saves memory and does not change them.

A `rate` drops the elements that the probability `1 - rate` does not keep.
"""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.random import positions
from mtf_imaging.engine.meshes.random.numbers import random_mask
from mtf_imaging.engine.ops.activation import LeakyReluGrad, kept_fraction


@pytest.mark.parametrize("layout", [{}, {"mesh_shape": "rows:2,cols:2", "layout": "x:rows,z:cols"}])
def test_a_mask_does_not_depend_on_the_number_of_elements_drawn_at_a_time(layout, monkeypatch):
    def mask():
        program = mi.Program(lambda image: mi.ops.dropout(image, 0.5), {"image": "batch:2,x:4,y:3,z:6"}, **layout)
        return program(image=np.ones((2, 4, 3, 6))).numpy()

    at_once = mask()
    assert 0 < at_once.mean() < 2
    for elements in (1, 7, 40):
        monkeypatch.setattr(positions, "AT_ONCE", elements)
        np.testing.assert_array_equal(mask(), at_once)


def test_masks_are_drawn_when_they_are_needed():
    try:
        tf.config.experimental.reset_memory_stats("CPU:0")
    except ValueError:
        pytest.skip("TensorFlow reports no memory statistics for this CPU")
    size = 2048

    def fn(image):
        x = image
        for i in range(8):
            x = mi.ops.dropout(x, 0.5, name=f"dropout{i}")
        return mi.mtf.reduce_sum(mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(x))], [image])[0])

    program, image = mi.Program(fn, {"image": f"x:{size},y:{size}"}), tf.zeros([size, size])
    tf.config.experimental.reset_memory_stats("CPU:0")
    before = tf.config.experimental.get_memory_info("CPU:0")["current"]
    program(image=image)
    # The gradient draws 8 masks again, one byte for each element. The tensors are the input, the result and one
    # temporary.
    assert (tf.config.experimental.get_memory_info("CPU:0")["peak"] - before) / (4 * size**2) <= 4


@pytest.mark.parametrize("percent", range(1, 100))
def test_the_kept_fraction_is_exact_in_decimal(percent):
    assert kept_fraction(float(f"0.{percent:02}")) == float(f"0.{100 - percent:02}")


def test_the_kept_fraction_of_any_number_and_type():
    assert [kept_fraction(rate) for rate in (0, 1e-6, np.float32(0.9), np.float64(0.7))] == [1.0, 0.999999, 0.1, 0.3]
    for rate in np.random.default_rng(0).random(100):
        assert kept_fraction(rate) == pytest.approx(1 - rate, rel=1e-15, abs=1e-16)


class KeepProbability(mi.mtf.Operation):
    """Dropout with the probability that an element is kept."""

    def __init__(self, x, keep_prob, key_name):
        super().__init__([x], name="kept")
        self.keep_prob, self.key_name = keep_prob, key_name
        self._outputs = [mi.mtf.Tensor(self, x.shape, x.dtype)]

    def lower(self, lowering):
        mesh, x = lowering.mesh_impl(self), lowering.tensors[self.inputs[0]].to_laid_out_tensor()
        assert isinstance(x, LaidOutTensor)
        key = lowering.random_state.key(self.key_name)
        mask = random_mask(mesh, self.inputs[0].shape, key, self.keep_prob, after=x)
        y = mesh.map_stacks(
            lambda x, m: tf.where(m, x / tf.cast(self.keep_prob, x.dtype), tf.zeros([], x.dtype)), x, mask
        )
        lowering.set_tensor_lowering(self.outputs[0], y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("keep_prob", "rate"), [(0.8, 0.2), (0.5, 0.5), (0.1, 0.9), (0.3, 0.7), (0.2, 0.8)])
def test_a_rate_drops_the_same_elements_as_keep_prob(keep_prob, rate, dtype):
    def both(x):
        return mi.ops.dropout(x, rate, name="dropout"), KeepProbability(x, keep_prob, "dropout").outputs[0]

    image = np.random.default_rng(0).normal(size=(64, 63)).astype(dtype)
    new, old = mi.Program(both, {"x": ("x:64,y:63", dtype)}, "rows:2", "x:rows")(x=image)
    np.testing.assert_array_equal(new, old)
    assert abs((new.numpy() != 0).mean() - keep_prob) < 0.02


@pytest.mark.parametrize("slope", [0.0, 0.125])
def test_a_leaky_relu_is_differentiated_from_its_dropout(slope):
    """The activation is then not kept for the backward pass. If it has other uses, its own signs count."""

    def fn(x):
        y = mi.ops.leaky_relu(x, slope)
        dropped = mi.ops.dropout(y, 0.5, name="dropout")
        loss, ones = mi.mtf.reduce_sum(mi.mtf.square(dropped)), mi.mtf.ones_like(y)
        gradients = [
            mi.mtf.gradients([loss], [x])[0],
            mi.mtf.gradients([loss + mi.mtf.reduce_sum(y)], [x])[0],
            mi.mtf.gradients([dropped, y], [x], [ones, ones])[0],
        ]
        read = [op.inputs[0] for op in x.mesh.graph.operations if isinstance(op, LeakyReluGrad)]
        assert read == [dropped, y, y]
        return dropped, *gradients

    # Whole numbers include 0, so a dropped element and an activation of 0 look alike.
    image = np.random.default_rng(0).integers(-2, 3, (6, 5, 4)).astype(np.float64)
    inputs = {"x": ("x:6,y:5,z:4", "float64")}
    program = mi.Program(fn, inputs, "rows:2,cols:2", "x:rows,y:cols")
    dropped, *gradients = (value.numpy() for value in program(x=image))
    mask = mi.Program(lambda x: mi.ops.dropout(x, 0.5), inputs)(x=np.ones_like(image)).numpy()
    through = [2 * dropped * mask, 2 * dropped * mask + 1, mask + 1]
    for gradient, dy in zip(gradients, through, strict=True):
        np.testing.assert_array_equal(gradient, dy * np.where(image > 0, 1, slope))


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_elements_are_dropped_independently_of_each_other(rate):
    """Neighbors along every dimension, other operations, other steps and other seeds are not correlated."""
    sizes = (32, 32, 32, 4)

    def fn(x):
        return mi.ops.dropout(x, rate, name="first"), mi.ops.dropout(x, rate, name="second")

    masks = []
    for seed in (0, 1):
        program = mi.Program(fn, {"x": "x:32,y:32,z:32,channels:4"}, seed=seed, updates="all")
        for step in (0, 1):
            program.step.assign(step)
            masks += [mask.numpy() != 0 for mask in program(x=np.ones(sizes, np.float32))]
    kept = 1 - rate
    centered = [(mask - kept) / np.sqrt(kept * rate) for mask in masks]
    n = centered[0].size
    for i, mask in enumerate(centered):
        assert abs(mask.mean()) < 5 / np.sqrt(n)
        for axis in range(4):
            for distance in (1, 2, 3):
                neighbors = mask * np.roll(mask, distance, axis)
                assert abs(neighbors.mean()) < 5 / np.sqrt(n), f"neighbors along {axis}, {distance} apart"
            along = mask.mean(axis) * np.sqrt(sizes[axis])
            assert abs((along**2).mean() - 1) < 5 * np.sqrt(2 / along.size), f"sums along {axis}"
        for other in centered[:i]:
            assert abs((mask * other).mean()) < 5 / np.sqrt(n)


def test_no_key_shifts_the_sequence_of_another():
    """Elements are hashes of their positions, so a key that only moved positions would repeat a sequence."""
    rows = positions.slice_rows([(4096, 4096)], np.zeros([1, 1], np.int64), {}, positions.u32(0))
    step = rows.rest[1] - rows.rest[0]
    bits = rows.bits((positions.u32(12345), positions.u32(1))).numpy()[0]
    same = rows.bits((positions.u32(12345) + step, positions.u32(1))).numpy()[0]
    np.testing.assert_array_equal(same[:-1], bits[1:])
    other = rows.bits((positions.u32(12345) + step, positions.u32(7))).numpy()[0]
    assert (other[:-1] == bits[1:]).mean() < 0.01
