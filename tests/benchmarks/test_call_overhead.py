"""The benchmark of calls computes the same number of steps in each way."""

import pytest

from benchmarks import call_overhead


@pytest.mark.slow
def test_a_row_has_three_times():
    times = call_overhead.measure(8, 2, "rows:2", "x:rows", steps=2, rounds=1)
    assert len(times) == 3
    assert min(times) > 0
