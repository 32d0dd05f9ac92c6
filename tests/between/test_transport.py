"""Messages and collectives between processes, without a layout or a program."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.between import checks
from tests.between.messages import check_exchange
from tests.engine.meshes.processors import make_mesh

SIZES = [(4,), (2, 2), (4, 3), (2, 4), (3, 2, 2), (4, 4, 2)]


def _calls(sizes):
    """Yields the name and the arguments of calls of collectives."""
    axes = range(len(sizes))
    for reduction in ("SUM", "MAX", "MIN"):
        yield "allreduce", list(axes), reduction
    for axis in axes:
        yield "allreduce", [axis], "SUM"
        yield "allconcat", {axis: 0}
        yield "allconcat", {axis: 1}
        yield "allsplit", {axis: 1}
        yield "alltoall", axis, 0, 1
        yield "alltoall", axis, 1, 1
        n = sizes[axis]
        for sources in ([(i + 1) % n for i in range(n)], [i - 1 if i else None for i in range(n)], [0] * n):
            yield "receive", axis, sources, -7
    for first, second in itertools.permutations(axes, 2):
        yield "allconcat", {first: 0, second: 1}
        yield "allsplit", {first: 0, second: 1}


@pytest.mark.parametrize(
    "sizes", [pytest.param(sizes, marks=[] if sizes == (4, 3) else [pytest.mark.slow]) for sizes in SIZES], ids=str
)
def test_collectives_equal_those_of_one_process(groups, sizes):
    for name, *args in _calls(sizes):
        slices = {}
        for result in groups.get(4).run(checks.collective, name, sizes, *args):
            slices |= result
        expected = checks.collective(name, sizes, *args, mesh=make_mesh(sizes, 1))
        assert slices.keys() == expected.keys()
        for at, value in expected.items():
            np.testing.assert_array_equal(slices[at], value, err_msg=f"{name}{args}, processor {at}")


def test_messages_that_no_operation_reads_are_sent(groups):
    first, *others = groups.get(4).run(checks.unread_messages)
    for ring, second, twice, total, everything in first:
        np.testing.assert_array_equal(ring, [3, 3, 3])
        np.testing.assert_array_equal(second, [3, 3, 3])
        np.testing.assert_array_equal(twice, [[-4, -4], [-4, -4]])
        np.testing.assert_array_equal(total, [4, 8])
        np.testing.assert_array_equal(everything, [[0, 0, 1, 1, 2, 2, 3, 3]])
    assert others == [[[0.0]] * 4] * 3


_shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)
_messages = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), _shapes), min_size=1, max_size=12)


@settings(max_examples=15)
@given(_messages, st.sampled_from(["float64", "bfloat16", "uint8", "int64", "uint64", "bool"]))
def test_any_messages(groups, messages, dtype):
    check_exchange(groups.get(4), messages, dtype)
