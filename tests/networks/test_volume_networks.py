"""Networks for whole volumes, rebuilt from their papers, are converted without a change."""

import pytest

from tests.networks import comparing
from tests.networks.volume_networks import VOLUME_NETWORKS

CASES = [*((layout, "float64") for layout in comparing.LAYOUTS), ("split", "float32")]


@pytest.fixture(autouse=True)
def default_dtype():
    yield
    comparing.use_dtype("float32")


@pytest.mark.mostly_slow(fast=0.05)
@pytest.mark.parametrize(("layout", "dtype"), CASES)
@pytest.mark.parametrize("name", VOLUME_NETWORKS)
def test_volume_networks(name, layout, dtype):
    """Outputs and all gradients equal those of Keras."""
    comparing.use_dtype(dtype)
    build, sizes = VOLUME_NETWORKS[name]
    model = build()
    comparing.randomize(model.variables)
    # In float32, the rounding of 136 layers adds up.
    tolerance = 1e-4 if (name, dtype) == ("nnU-Net, residual encoder", "float32") else None
    sizes = dict(zip("xyz", sizes, strict=True))
    comparing.check_model(model, layout, tolerance=tolerance, cancels=dtype == "float32", batch=2, **sizes)
