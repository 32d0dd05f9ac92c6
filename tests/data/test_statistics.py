"""The statistics of a channel equal those of NumPy, and do not depend on how the values are divided."""

import math
from fractions import Fraction

import numpy as np
import pytest

from mtf_imaging.data.intensities.statistics import Distribution, channel_statistics

RNG = np.random.default_rng(0)
VALUES = {
    "HU": RNG.integers(-1024, 3000, 1000).astype(np.int16),
    "all int16": RNG.integers(-32768, 32768, 1000).astype(np.int16),
    "uint16": RNG.integers(0, 65536, 1000).astype(np.uint16),
    "float32": RNG.normal(200, 50, 1001).astype(np.float32),
    "around zero": RNG.normal(0, 1e-3, 1000).astype(np.float32),
    "many zeros": np.where(np.arange(1000) % 3, 0, RNG.normal(0, 50, 1000)).astype(np.float32),
    "negative": -RNG.lognormal(0, 5, 1000).astype(np.float32),
    "wide": (RNG.choice([-1, 1], 1000) * 10.0 ** RNG.uniform(-44, 37, 1000)).astype(np.float32),
    "large offset": (1e6 + RNG.normal(0, 1, 1000)).astype(np.float32),
    "negative zero": np.array([-0.0, 0.0, -1.0, 2.5], np.float32),
    "constant": np.full(10, 1000.1, np.float32),
    "zeros": np.zeros(5, np.float32),
    "one value": np.array([0.1], np.float32),
    "two values": np.array([0.1, 7.3], np.float32),
}


def exact_mean_and_sd(values):
    if not values.size:
        return 0.0, 0.0
    exact = [Fraction(float(value)) for value in values]
    mean = sum(exact) / len(exact)
    return float(mean), math.sqrt(sum((value - mean) ** 2 for value in exact) / len(exact))


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_statistics_are_exact(values):
    statistics = channel_statistics(values)
    assert (statistics.mean, statistics.sd) == exact_mean_and_sd(values)
    assert (statistics.nonzero_mean, statistics.nonzero_sd) == exact_mean_and_sd(values[values != 0])
    assert (statistics.minimum, statistics.maximum) == (values.min(), values.max())
    # NumPy subtracts neighbors in the type of the values.
    percentiles = np.percentile(values.astype(np.float32), (0.5, 99.5))
    assert (statistics.low_percentile, statistics.high_percentile) == tuple(percentiles)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("size", [7, 1 << 16])
def test_parts_in_any_order_have_the_statistics_of_the_whole(values, size, monkeypatch):
    whole = channel_statistics(values)
    monkeypatch.setattr("mtf_imaging.data.intensities.statistics._PART_VALUES", size)
    distribution = Distribution()
    for part in np.array_split(values, 3)[::-1]:
        if part.size:
            distribution.add(part)
    if distribution.needs_second_pass:
        for start in range(3):
            distribution.add_again(values[start::3])
    assert distribution.statistics() == whole


def test_integers_need_one_pass():
    assert not _added(VALUES["HU"]).needs_second_pass
    assert not _added(np.arange(-8192, 8193, dtype=np.float32)).needs_second_pass
    assert _added(VALUES["float32"]).needs_second_pass


def _added(values):
    distribution = Distribution()
    distribution.add(values)
    return distribution


def test_the_order_of_the_axes_does_not_matter():
    values = RNG.normal(0, 50, (7, 6, 5)).astype(np.float32)
    assert channel_statistics(values) == channel_statistics(values[::-1].transpose(2, 0, 1))


def test_many_equal_values_have_exact_sums():
    """More than 2^20 equal values, with squares of 26 bits."""
    values = np.full((1 << 20) + 3, 8191, np.int16)
    values[0] = -8191
    statistics = channel_statistics(values)
    mean = Fraction(8191 * (values.size - 2), values.size)
    assert statistics.mean == float(mean)
    assert statistics.sd == math.sqrt(8191**2 - mean**2)
