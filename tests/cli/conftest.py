"""Clears the global gin configuration before and after each test of the command line."""

import gin
import pytest


@pytest.fixture(autouse=True)
def no_gin_configuration():
    gin.clear_config()
    yield
    gin.clear_config()
