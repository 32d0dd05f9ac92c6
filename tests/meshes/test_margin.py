"""The arithmetic of margins: where each voxel comes from, and the bytes that are sent for it; no tensor."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtf_imaging.meshes.exchange import Exchange
from mtf_imaging.meshes.halo import Margin, exchanges
from tests.meshes.processors import make_mesh


def _origins(size, before, after, parts):
    """{voxel of a widened slice: (slices to its owner, its index in the owner's widened slice)}, voxel by voxel."""
    origins = {}
    for index in range(before + size + after):
        distance, voxel = divmod(index - before, size)  # the owner's place in the line, counted from the receiver
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
    assert len({piece.distance for piece in pieces}) == len(pieces), "one piece a neighbor"


BYTES = 4
MARGINS = [
    # mesh, margins of slices [3, 5, 2], expected (axis, voxels of the message, distance)
    ((4,), [Margin(0, 3, 1, 2, 0)], [(0, 1 * 5 * 2, 1), (0, 2 * 5 * 2, -1)]),
    ((4,), [Margin(0, 3, 0, 0, 0)], []),
    ((4,), [Margin(0, 3, 1, 2)], []),
    ((1,), [Margin(0, 3, 1, 2, 0)], []),
    ((4,), [Margin(0, 3, 4, 0, 0)], [(0, 3 * 5 * 2, 1), (0, 1 * 5 * 2, 2)]),
    ((2,), [Margin(0, 3, 4, 0, 0)], [(0, 3 * 5 * 2, 1)]),
    # A margin that comes later is as wide as its slice; one that came before is widened, which brings the corners.
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
    # What is only padded is never sent.
    ((2, 3), [Margin(1, 5, 2, 2), Margin(0, 3, 1, 0, 1)], [(1, 1 * 5 * 2, 1)]),
]


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize(("mesh", "margins", "expected"), MARGINS)
def test_exchanges(mesh, margins, expected, adjoint):
    found = exchanges(make_mesh(mesh, 1), margins, (3, 5, 2), BYTES, adjoint)
    sign = -1 if adjoint else 1  # what came from a neighbor goes back to it
    messages = [Exchange("halo", (axis,), voxels * BYTES, sign * distance) for axis, voxels, distance in expected]
    assert collections.Counter(found) == collections.Counter(messages)
