"""Traces the outlines of masks as polygons that describe the masks exactly."""

import numpy as np
from scipy import ndimage


def outline_polygons(mask: np.ndarray) -> list[list[int]]:
    """Returns the outline of each connected part of a mask along the edges of its pixels.

    pycocotools decodes the polygons to the same mask. Parts are connected by edges, not by corners.

    Args:
      mask: bool `[height, width]`, without holes.

    Returns:
      Polygons of alternating x and y.
    """
    return [_outline(part) for part in _parts(mask)]


def has_holes(mask: np.ndarray) -> bool:
    """Returns whether polygons cannot describe a mask, because background is enclosed."""
    return any(not np.array_equal(ndimage.binary_fill_holes(part, np.ones((3, 3))), part) for part in _parts(mask))


def _parts(mask: np.ndarray) -> list[np.ndarray]:
    parts, count = ndimage.label(mask)
    return [parts == number for number in range(1, count + 1)]


def _outline(part: np.ndarray) -> list[int]:
    """Returns the outline of one connected part, with its pixels to the right of every edge."""
    padded = np.pad(part, 1)
    inside = padded[1:-1, 1:-1]
    # {(x, y): the steps from this corner}. A corner at which two pixels touch has two steps.
    steps: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for neighbor, (x, y), step in (
        (padded[:-2, 1:-1], (0, 0), (1, 0)),
        (padded[1:-1, 2:], (1, 0), (0, 1)),
        (padded[2:, 1:-1], (1, 1), (-1, 0)),
        (padded[1:-1, :-2], (0, 1), (0, -1)),
    ):
        for row, column in np.argwhere(inside & ~neighbor).tolist():
            steps.setdefault((column + x, row + y), []).append(step)
    start = here = min(steps)
    polygon: list[int] = []
    last = (0, 0)
    while steps:
        # At a corner with two steps, the right turn stays at the same pixel.
        turn = (-last[1], last[0])
        choices = steps[here]
        step = turn if turn in choices else choices[0]
        choices.remove(step)
        if not choices:
            del steps[here]
        if step != last:
            polygon += here
        here, last = (here[0] + step[0], here[1] + step[1]), step
        if here == start and start not in steps:
            break
    return polygon
