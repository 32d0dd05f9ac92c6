"""Norm statistics of many voxels: float32 sums that add one value after the other would be off by 3e-4 here."""

import numpy as np
import pytest

import mtf_imaging as mi

SIZES = (1, 64, 64, 64, 2)
LAYOUTS = {
    "whole": {},
    "stacked": {"mesh_shape": "rows:4,cols:2", "layout": "x:rows,y:cols", "mesh_impl": "stacked"},
    "placement": {"mesh_shape": "rows:2", "layout": "x:rows", "mesh_impl": "placement"},
    "channels": {"mesh_shape": "rows:2", "layout": "channels:rows", "mesh_impl": "stacked"},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_they_are_those_of_the_whole_tensor(layout):
    image = np.maximum(np.random.default_rng(0).normal(0.1, 1, SIZES), -0.1).astype(np.float32)

    def fn(image):
        y = mi.ops.batch_norm(image, True, momentum=0.0, name="norm")
        scale, _ = image.mesh.graph.trainable_variables
        return y, *mi.mtf.gradients([mi.mtf.reduce_sum(mi.mtf.square(y) * y)], [image, scale.outputs[0]])

    shape = ",".join(f"{name}:{size}" for name, size in zip(("batch", "x", "y", "z", "channels"), SIZES))
    program = mi.Program(fn, {"image": shape}, **LAYOUTS[layout])
    y, dx, dscale = program(image=image)

    exact = image.astype(np.float64)
    mean, variance = exact.mean((0, 1, 2, 3)), exact.var((0, 1, 2, 3))
    found = program.variables
    np.testing.assert_allclose(found["norm/moving_mean"].numpy(), mean, rtol=1e-5)
    np.testing.assert_allclose(found["norm/moving_variance"].numpy(), variance, rtol=1e-5)
    normal = (exact - mean) / np.sqrt(variance + 1e-6)
    np.testing.assert_allclose(y.numpy(), normal, rtol=1e-5, atol=1e-5)
    dy = 3 * normal**2
    expected = (dy - dy.mean((0, 1, 2, 3)) - normal * (dy * normal).mean((0, 1, 2, 3))) / np.sqrt(variance + 1e-6)
    np.testing.assert_allclose(dx.numpy(), expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_allclose(dscale.numpy(), (dy * normal).sum((0, 1, 2, 3)), rtol=1e-4)
