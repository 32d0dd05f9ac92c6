"""Networks for whole volumes, rebuilt from their papers, are converted without a change."""

import keras
import pytest

from tests.networks import comparing
from tests.networks.volume_networks import VOLUME_NETWORKS

CASES = [*((layout, "float64") for layout in comparing.LAYOUTS), ("split", "float32")]


@pytest.fixture(autouse=True)
def default_dtype():
    yield
    comparing.use_dtype("float32")


def model_of(name, dtype):
    comparing.use_dtype(dtype)
    build, sizes = VOLUME_NETWORKS[name]
    model = build()
    comparing.randomize(model.variables)
    return model, dict(zip("xyz", sizes, strict=True))


@pytest.mark.mostly_slow(fast=0.05)
@pytest.mark.parametrize(("layout", "dtype"), CASES)
@pytest.mark.parametrize("name", VOLUME_NETWORKS)
def test_volume_networks(name, layout, dtype):
    """Outputs and all gradients equal those of Keras."""
    model, sizes = model_of(name, dtype)
    # In float32, the rounding of 136 layers adds up.
    tolerance = 1e-4 if (name, dtype) == ("nnU-Net, residual encoder", "float32") else None
    comparing.check_model(model, layout, tolerance=tolerance, cancels=dtype == "float32", batch=2, **sizes)


@pytest.mark.slow
@pytest.mark.parametrize("layout", comparing.LAYOUTS)
@pytest.mark.parametrize("name", ["3D U-Net", "SynthSeg", "HighRes3DNet", "MeshNet", "Attention U-Net"])
def test_volume_networks_in_training(name, layout):
    """With the statistics of the batch, outputs, all gradients and the moving averages equal those of Keras."""
    model, sizes = model_of(name, "float64")
    for layer in model.layers:
        if isinstance(layer, keras.layers.SpatialDropout3D):
            layer.rate = 0  # because Keras draws other random numbers
    comparing.check_model(model, layout, training=True, cancels=True, batch=2, **sizes)
