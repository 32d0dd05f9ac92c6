"""Random layers depend on the seed and the step, never on the layout."""

import keras
import numpy as np
import pytest

import mtf_imaging as mi
from tests.networks import comparing

layers = keras.layers
LAYERS = {
    "dropout": layers.Dropout(0.3),
    "spatial dropout": layers.SpatialDropout3D(0.5),
    "noise": layers.GaussianNoise(0.5),
    "multiplicative noise": layers.GaussianDropout(0.3),
    "alpha dropout": layers.AlphaDropout(0.3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_numbers_under_every_layout(name):
    image = keras.Input((None, None, None, 4))
    network = mi.networks.load(keras.Model(image, LAYERS[name](image)))
    specs = network.inputs(batch=2, x=8, y=6, z=5)
    image = comparing.arrays(specs)["image"]
    results = []
    for layout in comparing.LAYOUTS:
        options = comparing.layout_of(layout, specs)
        # an assignment, so that the program counts its steps
        program = mi.Program(lambda image: _counted(network(image=image, training=True)), specs, seed=1, **options)
        results.append([program(image=image).numpy() for _ in range(2)])
        inference = mi.Program(network, specs, **options)
        np.testing.assert_array_equal(inference(image=image), image)
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-5, atol=1e-6)
    first, second = results[0]
    assert np.abs(first - second).max() > 0.1  # each step draws new numbers
    assert not np.allclose(first, image)


def _counted(y):
    calls = mi.mtf.get_variable(y.mesh, "calls", mi.mtf.Shape([]), initializer=0.0, trainable=False)
    mi.mtf.assign(calls, calls + 1)
    return y


def test_the_fraction_and_scale_of_dropouts():
    image = keras.Input((None, None, None, 4))
    network = mi.networks.load(keras.Model(image, [layers.Dropout(0.3)(image), layers.SpatialDropout3D(0.5)(image)]))
    specs = network.inputs(batch=2, x=16, y=12, z=10)
    program = mi.Program(lambda image: network(image=image, training=True), specs)
    voxels, channels = (y.numpy() for y in program(image=np.ones([2, 16, 12, 10, 4], np.float32)).values())
    assert {*np.unique(voxels)} == {0, np.float32(1 / 0.7)}
    assert abs(np.mean(voxels == 0) - 0.3) < 0.02
    assert all(len(np.unique(y)) == 1 for y in channels.reshape(2, -1, 4).transpose(0, 2, 1).reshape(8, -1))
    assert {*np.unique(channels)} == {0, 2}
