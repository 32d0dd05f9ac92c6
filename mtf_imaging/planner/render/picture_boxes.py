"""Where the slices of a volume and their halos are, in voxels, and where these are on paper. Pure Python."""

import dataclasses
import itertools
from collections.abc import Iterator

from mtf_imaging.errors import ShapeError
from mtf_imaging.layout import Layout

Box = dict[str, tuple[float, float]]
Point = tuple[float, float]

_DEPTH = (0.42, 0.36)  # how far right and up a voxel of depth is drawn: shorter than the others, as what lies behind is


@dataclasses.dataclass(frozen=True)
class Cuts:
    """A volume cut by a layout.

    Attributes:
      volume: pairs (dimension, voxels), 1 to 3 of them.
      layout: the layout; rules for other dimensions than the volume's cut nothing.
    """

    volume: tuple
    layout: Layout

    def __post_init__(self):
        if not 1 <= len(self.volume) <= 3:
            raise ShapeError(f"a picture has 1 to 3 spatial dimensions, not {len(self.volume)}: {self.volume}")

    @property
    def parts(self) -> dict[str, int]:
        """Number of slices along each dimension of the volume."""
        slices = self.layout.slices_per_dimension
        return {dim: slices.get(dim, 1) for dim, _ in self.volume}

    def coarser(self, least: dict[str, float]) -> "Cuts":
        """Only some of the cuts, every 2nd, 4th ..., so that slices have `least` voxels where that can be.

        >>> Cuts((("x", 512),), Layout.parse("rows:128", "x:rows")).coarser({"x": 12}).parts
        {'x': 32}
        """
        parts = self.parts
        for dim, size in self.volume:
            while parts[dim] % 2 == 0 and size / parts[dim] < least[dim]:
                parts[dim] //= 2
        return Cuts(self.volume, Layout(tuple(parts.items()), tuple((dim, dim) for dim in parts)))

    def box(self, place: dict[str, int]) -> Box:
        """Voxels of the slice that is number `place[dim]` along each dimension.

        >>> Cuts((("x", 8), ("y", 6)), Layout.parse("rows:2", "x:rows")).box({"x": 1, "y": 0})
        {'x': (4.0, 8.0), 'y': (0.0, 6.0)}
        """
        parts = self.parts
        return {
            dim: (size * place[dim] / parts[dim], size * (place[dim] + 1) / parts[dim]) for dim, size in self.volume
        }

    def places(self) -> Iterator[dict[str, int]]:
        """The place of each slice, the last dimension counted first."""
        parts = self.parts
        for numbers in itertools.product(*(range(parts[dim]) for dim, _ in self.volume)):
            yield dict(zip(parts, numbers))

    def surface_places(self) -> Iterator[dict[str, int]]:
        """The places of slices that can be seen: all of a plane; of a solid those of its front, top and right side."""
        dims, parts = list(self.parts), self.parts
        seen = dict(zip(dims, (0, parts[dims[1]] - 1, 0))) if len(dims) == 3 else {}
        return (place for place in self.places() if not seen or any(place[dim] == seen[dim] for dim in dims))

    def shown_place(self) -> dict[str, int]:
        """The slice whose halo is shown: one with neighbours on all sides, of which some face can be seen.

        Where not only what goes back is cut, it is a slice of the front, as others are hidden or show an edge alone.

        >>> Cuts((("x", 8), ("y", 8)), Layout.parse("a:4,b:4", "x:a,y:b")).shown_place()
        {'x': 1, 'y': 2}
        """
        parts = self.parts
        place = {dim: (n - 1) // 2 for dim, n in parts.items()}
        dims = list(parts)
        if len(dims) > 1:
            place[dims[1]] = parts[dims[1]] // 2
        if len(dims) == 3 and max(parts[dims[0]], parts[dims[1]]) > 1:
            place[dims[2]] = 0
        return place


def widened(box: Box, halo: dict[str, tuple[float, float]], volume: tuple) -> Box:
    """A slice with its halo; beyond the volume's border there is none.

    >>> widened({"x": (0, 4)}, {"x": (1, 1)}, (("x", 8),))
    {'x': (0, 5)}
    """
    around = {}
    for dim, size in volume:
        before, after = halo.get(dim, (0, 0))
        low, high = box[dim]
        around[dim] = (max(0, low - before), min(size, high + after))
    return around


def visible_halo(halo: dict, box: Box, least: dict[str, float], volume: tuple) -> dict[str, tuple[float, float]]:
    """Halos wide enough to be seen: of `least` voxels, or of less where a slice or what lies beside it is small.

    None stays none, and none seems to reach the border of the volume that does not.

    >>> visible_halo({"x": (0, 1)}, {"x": (64, 128)}, {"x": 5.0}, (("x", 256),))
    {'x': (0, 5.0)}
    """
    seen = {}
    for dim, size in volume:
        low, high = box[dim]
        wide = max(least[dim] / 2, min(least[dim], (high - low) / 2))
        sides = zip(halo.get(dim, (0, 0)), (low, size - high))
        seen[dim] = tuple(max(voxels, min(wide, beside / 2)) if voxels else 0 for voxels, beside in sides)
    return seen


@dataclasses.dataclass(frozen=True)
class Paper:
    """An oblique projection: the first dimension goes down, the second to the right, the third back.

    One dimension alone goes to the right. Pixels count right and up from the lower left corner of the whole drawing.

    Attributes:
      volume: pairs (dimension, voxels) of what fills the drawing.
      width, height: pixels that there are.
    """

    volume: tuple
    width: float
    height: float

    @property
    def _sizes(self):
        """Voxels down, right and back; a single row of voxels is drawn a tenth as high as it is long."""
        sizes = [size for _, size in self.volume]
        return [sizes[0] / 10, sizes[0], 0] if len(sizes) == 1 else [*sizes, 0][:3]

    @property
    def scale(self) -> float:
        """Pixels a voxel."""
        down, right, back = self._sizes
        return min(self.width / (right + back * _DEPTH[0]), self.height / (down + back * _DEPTH[1]))

    @property
    def size(self) -> Point:
        """Pixels that the drawing takes, to the right and up."""
        down, right, back = self._sizes
        return (right + back * _DEPTH[0]) * self.scale, (down + back * _DEPTH[1]) * self.scale

    def voxels(self, pixels: float) -> dict[str, float]:
        """How many voxels of each dimension are drawn that wide; what goes back is seen from the side."""
        aslant = dict(zip([dim for dim, _ in self.volume], (1, 1, _DEPTH[1])))
        return {dim: pixels / self.scale / aslant[dim] for dim, _ in self.volume}

    def point(self, down: float, right: float, back: float) -> Point:
        """Pixels of a place in voxels."""
        return (right + back * _DEPTH[0]) * self.scale, (self._sizes[0] - down + back * _DEPTH[1]) * self.scale

    def corners(self, box: Box) -> tuple[tuple[float, float], ...]:
        """First and last voxel down, right and back of a box."""
        ranges = [box[dim] for dim, _ in self.volume]
        if len(ranges) == 1:
            return (0, self._sizes[0]), ranges[0], (0, 0)
        return (*ranges, (0, 0))[:3]

    def faces(self, box: Box) -> dict[str, list[Point]]:
        """Corners of the faces that can be seen: the front, and of a solid the top and the right side."""
        (top, bottom), (left, right), (front, back) = self.corners(box)
        seen = {"front": [(top, left, front), (top, right, front), (bottom, right, front), (bottom, left, front)]}
        if back > front:
            seen["top"] = [(top, left, front), (top, right, front), (top, right, back), (top, left, back)]
            seen["side"] = [(top, right, front), (bottom, right, front), (bottom, right, back), (top, right, back)]
        return {name: [self.point(*corner) for corner in corners] for name, corners in seen.items()}

    def outer_faces(self, box: Box) -> dict[str, list[Point]]:
        """Those faces of a box that lie on the surface of the whole drawing, where nothing hides them."""
        (top, _), (_, right), (front, _) = self.corners(box)
        on_surface = {"front": front == 0, "top": top == 0, "side": right == self._sizes[1]}
        return {name: corners for name, corners in self.faces(box).items() if on_surface[name]}
