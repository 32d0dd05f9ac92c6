"""The arithmetic of margins: the origin of each voxel and the bytes of exchanges, without tensors."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.engine.layout.windows import SplitPlan
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.halo import Margin, exchanges
from tests.engine.meshes.processors import make_mesh


def _origins(size, before, after, parts):
    """Returns {voxel of a widened slice: (distance to its owner in slices, index in the owner's widened slice)}."""
    origins = {}
    for index in range(before + size + after):
        distance, voxel = divmod(index - before, size)  # position of the owner relative to the receiver
        if distance and abs(distance) < parts:
            origins[index] = (-distance, before + voxel)
    return origins


@given(st.integers(1, 5), st.integers(0, 12), st.integers(0, 12), st.integers(1, 6))
def test_pieces_are_the_voxels_of_the_margins_that_neighbors_own(size, before, after, parts):
    pieces, covered = Margin(1, size, before, after, 0).pieces(parts), {}
    for piece in pieces:
        assert piece.voxels > 0
        for i in range(piece.voxels):
            assert piece.target + i not in covered
            covered[piece.target + i] = (piece.distance, piece.source + i)
    assert covered == _origins(size, before, after, parts)
    assert len({piece.distance for piece in pieces}) == len(pieces), "one piece per neighbor"


BYTES = 4
MARGINS = [
    # (mesh, margins of slices [3, 5, 2], expected (axis, voxels of the message, distance))
    ((4,), [Margin(0, 3, 1, 2, 0)], [(0, 1 * 5 * 2, 1), (0, 2 * 5 * 2, -1)]),
    ((4,), [Margin(0, 3, 0, 0, 0)], []),
    ((4,), [Margin(0, 3, 1, 2)], []),
    ((1,), [Margin(0, 3, 1, 2, 0)], []),
    ((4,), [Margin(0, 3, 4, 0, 0)], [(0, 3 * 5 * 2, 1), (0, 1 * 5 * 2, 2)]),
    ((2,), [Margin(0, 3, 4, 0, 0)], [(0, 3 * 5 * 2, 1)]),
    # The first exchange sends unwidened slices. The second exchange sends widened slices, which include the corners.
    (
        (2, 3),
        [Margin(0, 3, 1, 0, 0), Margin(1, 5, 2, 1, 1)],
        [(0, 1 * 5 * 2, 1), (1, (1 + 3) * 2 * 2, 1), (1, (1 + 3) * 1 * 2, -1)],
    ),
    (
        (2, 3),
        [Margin(1, 5, 2, 1, 1), Margin(0, 3, 1, 0, 0)],
        [(1, 3 * 2 * 2, 1), (1, 3 * 1 * 2, -1), (0, 1 * (2 + 5 + 1) * 2, 1)],
    ),
    # Padding is never sent.
    ((2, 3), [Margin(1, 5, 2, 2), Margin(0, 3, 1, 0, 1)], [(1, 1 * 5 * 2, 1)]),
]


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize(("mesh", "margins", "expected"), MARGINS)
def test_exchanges(mesh, margins, expected, adjoint):
    actual = exchanges(make_mesh(mesh, 1), margins, (3, 5, 2), BYTES, adjoint)
    sign = -1 if adjoint else 1  # the adjoint sends in the opposite direction
    messages = [Exchange("halo", (axis,), voxels * BYTES, sign * distance) for axis, voxels, distance in expected]
    assert collections.Counter(actual) == collections.Counter(messages)


def test_negative_numbers_crop_and_positive_ones_widen():
    assert Margin(1, 8, -2, 1).removed == Margin(1, 6, 2, 0)
    assert Margin(1, 8, 3, -1).removed == Margin(1, 7, 0, 1)
    assert Margin(1, 8, -2, 1).added == Margin(1, 6, 0, 1)
    assert Margin(1, 8, 3, 2).added == Margin(1, 8, 3, 2)


@pytest.mark.parametrize(("starts", "cut"), [((2, 2), (2, 1)), ((0, 0), (0, 3)), ((0, 1), None)])
def test_a_widened_slice_is_cut_to_the_voxels_of_its_windows(starts, cut):
    plan = SplitPlan(parts=2, size=4, outputs=3, before=3, after=1, starts=starts, length=5, stride=1)
    margin = Margin(1, 4, 3, 1, 0, plan)
    assert margin.cut == (cut and Margin(1, 5, *cut))
