"""Weights of other programs in networks of this package: import, and comparison of what both compute."""

import numpy as np

import mtf_imaging as mi
from mtf_imaging.training.checkpoints.initial_weights import InitialWeights

LAYOUTS = [("", ""), ("rows:2,cols:2", "height:rows,width:cols")]


def compute_imported(weights, fn, inputs, mesh_shape, layout):
    """Runs a function whose network has imported weights.

    Args:
      weights: a folder that `import_weights` wrote.
      fn: a function of tensors, whose names are those of the inputs.
      inputs: {name: (shape such as "batch:1,height:8", array)}.
      mesh_shape, layout: the layout.

    Returns:
      The results of the function, as the program returns them.
    """
    program = mi.Program(
        fn, {name: (shape, array.dtype) for name, (shape, array) in inputs.items()}, mesh_shape, layout
    )
    InitialWeights(weights).apply(program)
    return program(**{name: array for name, (_, array) in inputs.items()})


def image_spec(image, names=("batch", "height", "width", "channels")):
    """Returns the shape of an image as a program takes it, and the image."""
    return ",".join(f"{name}:{size}" for name, size in zip(names, image.shape, strict=True)), image


def assert_equal(found, expected, tolerance=1e-11):
    """Compares arrays, relative to the largest absolute value of the expected one, which must not be 0."""
    expected, found = np.asarray(expected), np.asarray(found)
    assert found.shape == expected.shape
    scale = np.abs(expected).max()
    assert scale > 0
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def randomize_variables(network, seed=0):
    """Gives all variables of a Keras network random values that float32 can represent, and norms positive variances."""
    rng = np.random.default_rng(seed)
    for variable in network.variables:
        name, shape = variable.name.rpartition("/")[2].partition(":")[0], tuple(variable.shape)
        if name in ("gamma", "moving_variance"):
            value = rng.uniform(0.5, 1.5, shape)
        elif len(shape) < 2:
            value = rng.normal(0, 0.1, shape)
        else:
            value = rng.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape)
        variable.assign(value.astype(np.float32))
