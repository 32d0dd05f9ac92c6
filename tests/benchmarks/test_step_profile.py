"""The profile of a step counts all of its time, and the bytes of its graph."""

import doctest

import pytest

from benchmarks import step_profile
from benchmarks.partition.contender import Contender
from benchmarks.partition.networks import Step


def test_examples():
    assert doctest.testmod(step_profile) == (0, 2)


@pytest.mark.slow
def test_a_halo_takes_time_and_bytes():
    built = Contender.parse("2x2").load(Step("N1", (16,) * 3, base_filters=2, depth=2))
    built.build()
    built.take()
    found = step_profile.profile(built, parts=1)
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert min(found[of][key] for of in found for key in ("convolutions", "halos", "activations")) > 0
    assert "norms" not in found["bytes"]
