"""Norms of many voxels, and of means far above the deviation, in which sums lose digits."""

import numpy as np
import pytest
import tensorflow as tf

import mtf_imaging as mi
from tests.harness import difference

AXES = {"batch": (0, 1, 2, 3), "instance": (1, 2, 3), "group": (1, 2, 3, 4)}  # axes of the statistics
SIZES = (2, 64, 64, 64, 2)
LAYOUTS = {
    "whole": {},
    "stacked": {"mesh_shape": "rows:4,cols:2", "layout": "x:rows,y:cols", "mesh_impl": "stacked"},
    "placement": {"mesh_shape": "rows:2", "layout": "x:rows", "mesh_impl": "placement"},
    "channels": {"mesh_shape": "rows:2", "layout": "channels:rows", "mesh_impl": "stacked"},
}


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

    shape = ",".join(f"{name}:{size}" for name, size in zip(("batch", "x", "y", "z", "channels"), SIZES))
    program = mi.Program(fn, {"image": shape}, **LAYOUTS[layout])
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


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", AXES)
def test_a_mean_far_above_the_deviation(norm, layout, dtype):
    """float64 loses only the digits that the input itself lacks; float32 is as precise as TensorFlow."""

    def fn(image, cotangent):
        y = {
            "batch": lambda: mi.ops.batch_norm(image, True, name="norm"),
            "instance": lambda: mi.ops.instance_norm(image, name="norm"),
            "group": lambda: mi.ops.group_norm(image, 1, name="norm"),
        }[norm]()
        scale, _ = image.mesh.graph.trainable_variables
        return y, *mi.mtf.gradients([mi.mtf.reduce_sum(y * cotangent)], [image, scale.outputs[0]])

    sizes, axes = (2, 16, 16, 16, 2), AXES[norm]
    shape = ",".join(f"{name}:{size}" for name, size in zip(("batch", "x", "y", "z", "channels"), sizes))
    program = mi.Program(fn, dict.fromkeys(["image", "cotangent"], (shape, dtype)), **LAYOUTS[layout])
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
