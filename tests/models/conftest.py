"""Clears the global gin configuration before each test of a model: jobs bind the defaults of networks and losses."""

import gin
import pytest


@pytest.fixture(autouse=True)
def no_gin_configuration():
    gin.clear_config()
