"""Networks for whole volumes, rebuilt from their papers, are converted without a change."""

import pytest

from tests.networks import comparing
from tests.networks.volume_networks import VOLUME_NETWORKS


@pytest.fixture(autouse=True)
def default_dtype():
    yield
    comparing.use_dtype("float32")


@pytest.mark.mostly_slow(fast=0.05)
@pytest.mark.parametrize("dtype", comparing.TOLERANCES)
@pytest.mark.parametrize("layout", comparing.LAYOUTS)
@pytest.mark.parametrize("name", VOLUME_NETWORKS)
def test_volume_networks(name, layout, dtype):
    """Outputs and all gradients equal those of Keras."""
    comparing.use_dtype(dtype)
    build, sizes = VOLUME_NETWORKS[name]
    model = build()
    comparing.randomize(model.variables)
    comparing.check_model(model, layout, batch=2, **dict(zip("xyz", sizes, strict=True)))
