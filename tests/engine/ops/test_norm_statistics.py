"""Norms of many voxels, and of means far above the deviation, in which sums lose digits."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.exchanges import check_exchanges
from tests.engine.harness import difference, pairwise

AXES = {"batch": (0, 1, 2, 3), "instance": (1, 2, 3), "group": (1, 2, 3, 4)}  # axes of the statistics
SIZES = (2, 64, 64, 64, 2)
LAYOUTS = {
    "whole": {},
    "stacked": {"mesh_shape": "rows:4,cols:2", "layout": "x:rows,y:cols", "mesh_impl": "stacked"},
    "placement": {"mesh_shape": "rows:2", "layout": "x:rows", "mesh_impl": "placement"},
    "channels": {"mesh_shape": "rows:2", "layout": "channels:rows", "mesh_impl": "stacked"},
}


def norm_with_gradients(norm):
    """Returns a function that computes y and its gradients with respect to image and scale."""

    def fn(image, cotangent):
        y = {
            "batch": lambda: mi.ops.batch_norm(image, True, name="norm"),
            "instance": lambda: mi.ops.instance_norm(image, name="norm"),
            "group": lambda: mi.ops.group_norm(image, 1, name="norm"),
        }[norm]()
        scale, _ = image.mesh.graph.trainable_variables
        return y, *mi.mtf.gradients([mi.mtf.reduce_sum(y * cotangent)], [image, scale.outputs[0]])

    return fn


def named(sizes):
    return ",".join(f"{name}:{size}" for name, size in zip(("batch", "x", "y", "z", "channels"), sizes))


@pytest.mark.mostly_slow(fast=0.25)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", ["batch", "instance", "group"])
def test_statistics_of_many_voxels_equal_those_of_the_whole_tensor(norm, layout):
    """Sums that add float32 values one by one would be off by 3e-4 here."""
    image = np.maximum(np.random.default_rng(0).normal(0.1, 1, SIZES), -0.1).astype(np.float32)
    image[1] *= 3

    def fn(image):
        y = {
            "batch": lambda: mi.ops.batch_norm(image, True, momentum=0.0, name="norm"),
            "instance": lambda: mi.ops.instance_norm(image, name="norm"),
            "group": lambda: mi.ops.group_norm(image, 1, name="norm"),
        }[norm]()
        scale, _ = image.mesh.graph.trainable_variables
        return y, *mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(y) * y)], [image, scale.outputs[0]])

    program = mi.Program(fn, {"image": named(SIZES)}, **LAYOUTS[layout])
    y, dx, dscale = program(image=image)

    exact = image.astype(np.float64)
    axes = AXES[norm]
    mean, variance = exact.mean(axes, keepdims=True), exact.var(axes, keepdims=True)
    if norm == "batch":
        variables = program.variables
        np.testing.assert_allclose(variables["norm/moving_mean"].numpy(), mean.ravel(), rtol=1e-5)
        np.testing.assert_allclose(variables["norm/moving_variance"].numpy(), variance.ravel(), rtol=1e-5)
    normal = (exact - mean) / np.sqrt(variance + 1e-6)
    np.testing.assert_allclose(y.numpy(), normal, rtol=1e-5, atol=1e-5)
    dy = 3 * normal**2
    through = dy.mean(axes, keepdims=True) + normal * (dy * normal).mean(axes, keepdims=True)
    expected = (dy - through) / np.sqrt(variance + 1e-6)
    np.testing.assert_allclose(dx.numpy(), expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(dscale.numpy(), (dy * normal).sum((0, 1, 2, 3)), rtol=1e-4)


RATIOS = (1, 1e2, 1e4)  # mean / standard deviation


def differences(values, image, cotangent, mean, axes):
    """Returns the errors of the output and of its gradients with respect to image and scale.

    `image - mean` has no rounding error, so float64 is precise enough for the exact values.
    """
    image, cotangent = image.astype(np.float64) - mean, cotangent.astype(np.float64)
    centered = image - image.mean(axes, keepdims=True)
    inverse = 1 / np.sqrt((centered**2).mean(axes, keepdims=True) + 1e-6)
    normal = centered * inverse
    through = cotangent.mean(axes, keepdims=True) + normal * (cotangent * normal).mean(axes, keepdims=True)
    exact = normal, (cotangent - through) * inverse, (cotangent * normal).sum((0, 1, 2, 3))
    return np.array([difference(value, wanted) for value, wanted in zip(values, exact, strict=True)])


@tf.function
def tensorflow_norm(image, cotangent, axes):
    scale = tf.ones(image.shape[-1:], image.dtype)
    with tf.GradientTape() as tape:
        tape.watch([image, scale])
        y = tf.nn.batch_normalization(image, *tf.nn.moments(image, axes, keepdims=True), None, scale, 1e-6)
        total = tf.reduce_sum(y * cotangent)
    return y, *tape.gradient(total, [image, scale])


@pytest.mark.mostly_slow(fast=0.4)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", AXES)
def test_a_mean_far_above_the_deviation(norm, layout, dtype):
    """float64 loses only the digits that the input itself lacks; float32 is as precise as TensorFlow."""
    sizes, axes = (2, 16, 16, 16, 2), AXES[norm]
    inputs = dict.fromkeys(["image", "cotangent"], (named(sizes), dtype))
    program = mi.Program(norm_with_gradients(norm), inputs, **LAYOUTS[layout])
    for ratio in RATIOS:
        rng = np.random.default_rng(1)
        image, cotangent = (ratio + rng.standard_normal(sizes)).astype(dtype), rng.standard_normal(sizes).astype(dtype)
        errors = differences(program(image=image, cotangent=cotangent), image, cotangent, ratio, axes)
        if dtype == "float64":
            allowed = [1e-14 + 1e-15 * ratio] * 3
        else:
            expected = tensorflow_norm(tf.constant(image), tf.constant(cotangent), axes)
            allowed = np.maximum(differences(expected, image, cotangent, ratio, axes), 2e-7)
        assert all(errors <= allowed), f"at ratio {ratio:g}: errors {errors} exceed {allowed}"


UNEVEN_SIZES = (3, 10, 9, 7, 6)
UNEVEN = {  # the sizes of the slices, and the number of devices
    "x 3,3,3,1": ("rows:4", "x:rows", 4),
    "x 2,2,2,2,2,0,0 y 5,4": ("rows:7,cols:2", "x:rows,y:cols", 4),
    "x 3,3,3,1 y 3,3,3,0 z 4,3": ("rows:4,cols:4,planes:2", "x:rows,y:cols,z:planes", 4),
    "batch 2,1": ("cores:2", "batch:cores", 2),
    "batch 2,1 x 2,2,2,2,2": ("cores:2,rows:5", "batch:cores,x:rows", 2),
    "batch 1,1,1,0 x 5,5": ("cores:4,rows:2,spare:2", "batch:cores,x:rows", 4),
    "channels 2,2,2,0": ("model:4", "channels:model", 4),
    "batch 2,1 x 4,4,2 channels 2,2,2,0": ("rows:3,cores:2,model:4", "x:rows,batch:cores,channels:model", 4),
}
ROWS = pairwise(
    itertools.product(UNEVEN, AXES, ["stacked", "placement"], ["float64", "float32", "float16", "bfloat16"])
)


@pytest.mark.mostly_slow(fast=0.07)
@pytest.mark.parametrize(("slices", "norm", "mesh_impl", "dtype"), ROWS)
@pytest.mark.filterwarnings("ignore:no rule of layout")
def test_uneven_slices_are_as_precise_as_the_whole_tensor(slices, norm, mesh_impl, dtype):
    """Zeros in the tails would be outliers, and the variance would lose all digits at the largest mean."""
    mesh_shape, layout, num_devices = UNEVEN[slices]
    devices = [f"/device:CPU:{number}" for number in range(num_devices)]
    fn, inputs = norm_with_gradients(norm), dict.fromkeys(["image", "cotangent"], (named(UNEVEN_SIZES), dtype))
    whole = mi.Program(fn, inputs)
    uneven = mi.Program(fn, inputs, mesh_shape, layout, mesh_impl, devices)
    check_exchanges(uneven, fn, inputs)
    # Values of 16 bits at 10,000 have steps of more than the deviation.
    for ratio in (1, 1e2, 1e3, 1e4)[: 4 if dtype in ("float64", "float32") else 3]:
        rng = np.random.default_rng(1)
        image = tf.cast(ratio + rng.standard_normal(UNEVEN_SIZES), dtype)
        cotangent = tf.cast(rng.standard_normal(UNEVEN_SIZES), dtype)
        expected, errors = (
            differences(
                [tf.cast(value, tf.float64) for value in program(image=image, cotangent=cotangent)],
                *(tf.cast(value, tf.float64).numpy() for value in (image, cotangent)),
                ratio,
                AXES[norm],
            )
            for program in (whole, uneven)
        )
        # The order of a sum changes its rounding error, so errors of two layouts differ by a small factor.
        allowed = [1e-14 + 1e-15 * ratio] * 3 if dtype == "float64" else 4 * expected + 3e-7
        assert all(errors <= allowed), f"at ratio {ratio:g}: errors {errors}, of the whole tensor {expected}"
