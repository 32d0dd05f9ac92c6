"""The contents and the geometry of a layout picture: slices and halos in voxels, and their projection in pixels."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout, Slices
from mtf_imaging.errors import ShapeError

Box = dict[str, tuple[float, float]]
Point = tuple[float, float]

_DEPTH = (0.42, 0.36)  # pixels right and up per voxel of depth, relative to the scale; depth is foreshortened


@dataclasses.dataclass(frozen=True)
class Cuts:
    """A volume cut by a layout.

    Attributes:
      volume: 1 to 3 pairs (dimension, voxels).
      layout: the layout; rules for other dimensions do not cut the volume.
      joined: {dimension: number of slices drawn as one}; default: 1.
    """

    volume: tuple
    layout: Layout
    joined: dict[str, int] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not 1 <= len(self.volume) <= 3:
            raise ShapeError(
                f"a picture has 1 to 3 spatial dimensions, not {len(self.volume)}: {self.volume}. "
                "Fix: name 1 to 3 dimensions of the image."
            )

    @property
    def slices(self) -> dict[str, Slices]:
        """The slices along each dimension of the volume."""
        parts = self.layout.slices_per_dimension
        return {dim: Slices(size, parts.get(dim, 1)) for dim, size in self.volume}

    @property
    def parts(self) -> dict[str, int]:
        """The number of boxes along each dimension: joined slices, without empty slices."""
        return {dim: -(-slices.filled // self.joined.get(dim, 1)) for dim, slices in self.slices.items()}

    def coarser(self, least: dict[str, float]) -> "Cuts":
        """Keeps only every 2nd, 4th, ... cut, so that slices have at least `least` voxels if possible.

        >>> Cuts((("x", 512),), Layout.parse("rows:128", "x:rows")).coarser({"x": 12}).parts
        {'x': 32}
        """
        joined = {}
        for dim, slices in self.slices.items():
            joined[dim] = 1
            while slices.filled > joined[dim] and slices.size * joined[dim] < least[dim]:
                joined[dim] *= 2
        return dataclasses.replace(self, joined=joined)

    def box(self, place: dict[str, int]) -> Box:
        """Returns the voxel range of box number `place[dim]` along each dimension.

        >>> Cuts((("x", 9), ("y", 6)), Layout.parse("rows:2", "x:rows")).box({"x": 1, "y": 0})
        {'x': (5, 9), 'y': (0, 6)}
        """
        box = {}
        for dim, slices in self.slices.items():
            size = slices.size * self.joined.get(dim, 1)
            box[dim] = (size * place[dim], min(size * (place[dim] + 1), slices.whole))
        return box

    def places(self) -> Iterator[dict[str, int]]:
        """Yields the place of each box; the last dimension varies fastest."""
        parts = self.parts
        for numbers in itertools.product(*(range(parts[dim]) for dim, _ in self.volume)):
            yield dict(zip(parts, numbers))

    def surface_places(self) -> Iterator[dict[str, int]]:
        """Yields the places of the visible slices: all slices of a plane, or the front, top and right of a solid."""
        dims, parts = list(self.parts), self.parts
        seen = dict(zip(dims, (0, parts[dims[1]] - 1, 0))) if len(dims) == 3 else {}
        return (place for place in self.places() if not seen or any(place[dim] == seen[dim] for dim in dims))

    def shown_place(self) -> dict[str, int]:
        """Returns the slice to show with its halo: a visible slice with neighbors on all sides, if possible.

        If the first or second dimension is split, the slice is at the front, because other slices are hidden or show
        only an edge.

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
    """Returns the voxel range of a slice with its halo, which ends at the border of the volume.

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
    """Returns halos that are wide enough to see.

    A halo has at least `least` voxels, or fewer if the slice or its neighbor is small. An empty halo stays empty. A
    widened halo does not reach the border of the volume unless the true halo does.

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
    """An oblique projection: the first dimension points down, the second right, the third back.

    A single dimension points right. Pixels count right and up from the lower left corner of the whole drawing.

    Attributes:
      volume: pairs (dimension, voxels) of the box that fills the drawing.
      width: available pixels in width.
      height: available pixels in height.
    """

    volume: tuple
    width: float
    height: float

    @property
    def _sizes(self):
        """Voxels down, right and back; a single row of voxels is a tenth as high as it is long."""
        sizes = [size for _, size in self.volume]
        return [sizes[0] / 10, sizes[0], 0] if len(sizes) == 1 else [*sizes, 0][:3]

    @property
    def scale(self) -> float:
        """Pixels per voxel."""
        down, right, back = self._sizes
        return min(self.width / (right + back * _DEPTH[0]), self.height / (down + back * _DEPTH[1]))

    @property
    def size(self) -> Point:
        """Width and height of the drawing in pixels."""
        down, right, back = self._sizes
        return (right + back * _DEPTH[0]) * self.scale, (down + back * _DEPTH[1]) * self.scale

    def voxels(self, pixels: float) -> dict[str, float]:
        """Returns the number of voxels along each dimension that span a number of pixels."""
        aslant = dict(zip([dim for dim, _ in self.volume], (1, 1, _DEPTH[1])))
        return {dim: pixels / self.scale / aslant[dim] for dim, _ in self.volume}

    def point(self, down: float, right: float, back: float) -> Point:
        """Returns the pixel position of a point in voxels."""
        return (right + back * _DEPTH[0]) * self.scale, (self._sizes[0] - down + back * _DEPTH[1]) * self.scale

    def corners(self, box: Box) -> tuple[tuple[float, float], ...]:
        """Returns the first and last voxel of a box down, right and back."""
        ranges = [box[dim] for dim, _ in self.volume]
        if len(ranges) == 1:
            return (0, self._sizes[0]), ranges[0], (0, 0)
        return (*ranges, (0, 0))[:3]

    def faces(self, box: Box) -> dict[str, list[Point]]:
        """Returns the corners of the visible faces: the front and, for a solid, the top and right side."""
        (top, bottom), (left, right), (front, back) = self.corners(box)
        seen = {"front": [(top, left, front), (top, right, front), (bottom, right, front), (bottom, left, front)]}
        if back > front:
            seen["top"] = [(top, left, front), (top, right, front), (top, right, back), (top, left, back)]
            seen["side"] = [(top, right, front), (bottom, right, front), (bottom, right, back), (top, right, back)]
        return {name: [self.point(*corner) for corner in corners] for name, corners in seen.items()}

    def outer_faces(self, box: Box) -> dict[str, list[Point]]:
        """Returns the visible faces of a box, which lie on the surface of the whole drawing."""
        (top, _), (_, right), (front, _) = self.corners(box)
        on_surface = {"front": front == 0, "top": top == 0, "side": right == self._sizes[1]}
        return {name: corners for name, corners in self.faces(box).items() if on_surface[name]}


@dataclasses.dataclass(frozen=True)
class LayoutPicture:
    """The contents of a layout picture.

    Attributes:
      volume: pairs (dimension, voxels) of the 1 to 3 spatial dimensions of the image.
      layout: the layout; it may contain rules for other dimensions.
      halo: voxels (before, after) of the widest convolution at full resolution, by spatial dimension.
      memory: pairs (purpose, bytes) on one device; empty if unknown.
      memory_recomputed: pairs (purpose, bytes) with recomputed activations; empty omits this bar.
      device_memory: bytes of device memory, or None.
      device_name: the name of the device.
      title: the title of the picture; default: the mesh and the layout.
    """

    volume: Sequence[tuple[str, int]]
    layout: Layout = ONE_PROCESSOR
    halo: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    memory: Sequence[tuple[str, int]] = ()
    memory_recomputed: Sequence[tuple[str, int]] = ()
    device_memory: int | None = None
    device_name: str = "device"
    title: str = ""
