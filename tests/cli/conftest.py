"""Gin's configuration is global: each test of the command line starts with none."""

import gin
import pytest


@pytest.fixture(autouse=True)
def no_gin_configuration():
    gin.clear_config()
    yield
    gin.clear_config()
