"""Outlines of masks as SVG paths."""

import contourpy
import numpy as np


def outline(mask: np.ndarray) -> str:
    """Outlines a mask halfway between the centers of its voxels and their neighbors.

    Args:
      mask: bool `[rows, columns]`; voxels beyond the border count as outside the mask.

    Returns:
      The closed lines as SVG path data, in half voxels from the top left corner. In this unit, all points are integers,
      which keeps the path short. The string is empty for an empty mask.

    >>> outline(np.array([[0, 1, 1, 1]], bool))
    'M2 1l1-1h4l1 1-1 1h-4z'
    """
    padded = np.pad(mask, 1).astype(np.float32)
    lines = contourpy.contour_generator(z=padded, line_type=contourpy.LineType.Separate).lines(0.5)
    # The center (0, 0) of the mask is (1, 1) in the padded mask, and half a voxel from the corner.
    return "".join(_path(np.rint(2 * line - 1).astype(np.int64)) for line in lines)


def _path(points: np.ndarray) -> str:
    """Returns the path of a closed line through points `[n, 2]`; the last point equals the first."""
    steps = np.diff(points, axis=0)
    turns = np.flatnonzero(np.any(steps != np.roll(steps, 1, axis=0), axis=1))  # drops points within straight lines
    corners = points[turns]
    moves = np.diff(corners, axis=0).tolist()
    text, last = f"M{corners[0, 0]} {corners[0, 1]}", "M"
    for dx, dy in moves:
        command, numbers = ("h", [dx]) if not dy else ("v", [dy]) if not dx else ("l", [dx, dy])
        if command != last:
            text, last = text + command, command
        elif numbers[0] >= 0:
            text += " "
        text += str(numbers[0]) + "".join(f" {n}" if n >= 0 else str(n) for n in numbers[1:])
    return text + "z"
