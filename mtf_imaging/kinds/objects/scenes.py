"""Paints object scenes: overlapping textured shapes, with the mask of each visible part.

Outline and texture determine a shape's category, as in the photo scenes. Colors, sizes, positions and
lighting are random.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import ndimage

from mtf_imaging.data.pixels import painting
from mtf_imaging.data.pixels.synthetic import DEFAULT_SIZE
from mtf_imaging.kinds.objects.reading.outlines import has_holes

CATEGORIES = ((1, "disc"), (2, "square"), (3, "triangle"), (4, "star"))


def _square(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns a square whose corners are on the circle of the radius."""
    return painting.square(1.27 * rows, 1.27 * columns)


# {category: (outline in units of the radius, texture in -1..1)}.
_SHAPES: tuple[tuple[Callable, Callable], ...] = (
    (painting.disc, painting.plain),
    (_square, painting.checks),
    (painting.triangle, painting.stripes),
    (painting.star, painting.speckles),
)

OBJECTS, CROWD, EMPTY = "objects", "crowd", "empty"
_NUM_OBJECTS, _NUM_BESIDE_CROWD = (1, 7), (1, 3)  # without the upper bound
_DIAMETER = (16.0, 72.0)  # in pixels
_LARGEST = 0.6  # of the shorter side
_SMALLEST_SHARE = 0.6  # share of an object that must be visible
_SPECK = 12  # pixels; smaller visible parts do not belong to the mask
_ATTEMPTS = 12  # attempts to place an object
_NUM_IN_CROWD = (10, 17)  # without the upper bound
_DIAMETER_IN_CROWD = (8.0, 11.0)
_GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


class Shape(NamedTuple):
    """The visible part of an object, or of a group of objects.

    Attributes:
      category: the index in `CATEGORIES`.
      mask: bool `[height, width]`; without holes unless it is a crowd.
      is_crowd: whether it is a group of many small objects.
    """

    category: int
    mask: np.ndarray
    is_crowd: bool


class Scene(NamedTuple):
    """A scene.

    Attributes:
      pixels: uint8 `[height, width, 3]`.
      shapes: the shapes from back to front; their masks do not overlap.
    """

    pixels: np.ndarray
    shapes: tuple[Shape, ...]


def make_object_scene(seed: int, number: int, kind: str = OBJECTS, size: tuple[int, int] = DEFAULT_SIZE) -> Scene:
    """Returns one scene, which depends only on the arguments.

    Args:
      seed: seed of all scenes.
      number: number of the scene.
      kind: "objects"; "crowd", with a group of small shapes of one category behind one or two objects; or "empty".
      size: (low, high) bounds of the height and of the width in pixels, without high.
    """
    rng = np.random.default_rng([seed, number])
    height, width = (int(n) for n in rng.integers(*size, 2))
    canvas = _Canvas(rng, height, width)
    if kind == CROWD:
        canvas.add_crowd()
    if kind != EMPTY:
        for _ in range(rng.integers(*(_NUM_BESIDE_CROWD if kind == CROWD else _NUM_OBJECTS))):
            canvas.add_object()
    return Scene(painting.photographed(rng, canvas.pixels), canvas.shapes())


class _Canvas:
    """The state of a scene during painting."""

    def __init__(self, rng: np.random.Generator, height: int, width: int):
        self._rng, self._size = rng, (height, width)
        self.pixels = painting.background(rng, height, width)
        self._visible: list[Shape] = []
        self._areas: list[int] = []  # masks of the whole objects

    def shapes(self) -> tuple[Shape, ...]:
        """Returns the visible parts of the shapes."""
        return tuple(self._visible)

    def add_object(self) -> None:
        """Paints an object in front of the others, unless it would hide too much of them at every tried position."""
        category = int(self._rng.integers(len(CATEGORIES)))
        largest = min(_DIAMETER[1], _LARGEST * min(self._size))
        low, high = np.log(min(_DIAMETER[0], largest / 2)), np.log(largest)
        radius = float(np.exp(self._rng.uniform(low, high))) / 2
        for _ in range(_ATTEMPTS):
            center = self._rng.uniform(0.7 * radius, np.array(self._size) - 0.7 * radius)
            inside, paint = self._outline(category, center, radius)
            behind = [self._behind(shape, inside) for shape in self._visible]
            if all(map(self._is_visible, behind, self._areas)):
                paint()
                self._visible = [*behind, Shape(category, inside, is_crowd=False)]
                self._areas.append(int(inside.sum()))
                return

    def add_crowd(self) -> None:
        """Paints a group of small shapes on a spiral."""
        category, count = int(self._rng.integers(len(CATEGORIES))), int(self._rng.integers(*_NUM_IN_CROWD))
        spacing = 0.6 * _DIAMETER_IN_CROWD[1]
        extent = min(spacing * np.sqrt(count), min(self._size) / 2)
        middle = self._rng.uniform(extent, np.array(self._size) - extent)
        turn = self._rng.uniform(0, 2 * np.pi)
        group = np.zeros(self._size, bool)
        for number in range(count):
            distance, angle = spacing * np.sqrt(number), number * _GOLDEN_ANGLE + turn
            center = middle + distance * np.array([np.sin(angle), np.cos(angle)])
            inside, paint = self._outline(category, center, self._rng.uniform(*_DIAMETER_IN_CROWD) / 2)
            paint()
            group |= inside
        self._visible.append(Shape(category, group, is_crowd=True))
        self._areas.append(int(group.sum()))

    def _outline(self, category: int, center: np.ndarray, radius: float) -> tuple[np.ndarray, Callable[[], None]]:
        """Returns the mask of a shape, and a function that paints it."""
        rows, columns = painting.turned_grid(*self._size, center, self._rng.uniform(0, 2 * np.pi))
        outline, texture = _SHAPES[category]
        inside = _without_specks(outline(rows / radius, columns / radius))

        def paint() -> None:
            pattern = texture(self._rng, rows, columns)
            self.pixels = np.where(inside[..., np.newaxis], painting.colored(self._rng, pattern), self.pixels)

        return inside, paint

    def _behind(self, shape: Shape, front: np.ndarray) -> Shape:
        remaining = shape.mask & ~front
        return shape._replace(mask=remaining if shape.is_crowd else _without_specks(remaining))

    def _is_visible(self, shape: Shape, area: int) -> bool:
        is_large = shape.mask.sum() >= _SMALLEST_SHARE * area
        return bool(is_large) and (shape.is_crowd or not has_holes(shape.mask))


def _without_specks(mask: np.ndarray) -> np.ndarray:
    """Returns a mask without parts of only a few pixels."""
    parts, _ = ndimage.label(mask)
    sizes = np.bincount(parts.ravel())
    return mask & (sizes >= _SPECK)[parts]
