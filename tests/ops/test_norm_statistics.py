"""Norm statistics of many voxels: float32 sums that add one value after the other would be off by 3e-4 here."""

import numpy as np
import pytest

import mtf_imaging as mi

AXES = {"batch": (0, 1, 2, 3), "instance": (1, 2, 3), "group": (1, 2, 3, 4)}  # over which they are taken
SIZES = (2, 64, 64, 64, 2)
LAYOUTS = {
    "whole": {},
    "stacked": {"mesh_shape": "rows:4,cols:2", "layout": "x:rows,y:cols", "mesh_impl": "stacked"},
    "placement": {"mesh_shape": "rows:2", "layout": "x:rows", "mesh_impl": "placement"},
    "channels": {"mesh_shape": "rows:2", "layout": "channels:rows", "mesh_impl": "stacked"},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", ["batch", "instance", "group"])
def test_they_are_those_of_the_whole_tensor(norm, layout):
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
        found = program.variables
        np.testing.assert_allclose(found["norm/moving_mean"].numpy(), mean.ravel(), rtol=1e-5)
        np.testing.assert_allclose(found["norm/moving_variance"].numpy(), variance.ravel(), rtol=1e-5)
    normal = (exact - mean) / np.sqrt(variance + 1e-6)
    np.testing.assert_allclose(y.numpy(), normal, rtol=1e-5, atol=1e-5)
    dy = 3 * normal**2
    through = dy.mean(axes, keepdims=True) + normal * (dy * normal).mean(axes, keepdims=True)
    expected = (dy - through) / np.sqrt(variance + 1e-6)
    np.testing.assert_allclose(dx.numpy(), expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(dscale.numpy(), (dy * normal).sum((0, 1, 2, 3)), rtol=1e-4)
