"""The bytes between hosts in a training step equal those that `explain --num_hosts` expects."""

import pytest

from benchmarks.host_traffic.measure import measure
from benchmarks.host_traffic.setup import Setup, expect

SETUPS = [
    Setup("halos and gradients", "rows:2", "x:rows"),
    Setup("gradients", "cores:3", "batch:cores", num_hosts=3, size=16, batch=3, base_filters=24),
]


@pytest.mark.slow
@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.title)
def test_the_planner_knows_the_bytes_between_hosts(setup):
    expected, measured = expect(setup).nbytes, measure(setup, steps=5).busiest
    assert expected < measured < 1.02 * expected
