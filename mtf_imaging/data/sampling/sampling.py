"""Where the voxels that a network works on lie in a volume: over its whole field of view, or at a fixed size in mm."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid, format_grid, parse_grid
from mtf_imaging.errors import DataError

Spacing = tuple[float, float, float]

BOX_MULTIPLE = 16  # a network halves its image a few times, and a layout splits what is left
_SLIVER = 1e-3  # of a voxel: what headers of 32-bit numbers leave of "exactly 10 voxels"


@dataclass(frozen=True)
class Span:
    """Voxels of one axis, evenly spaced along another axis whose voxel i covers [i, i + 1).

    Voxel j covers `start + [j, j + 1) * length / size`; its centre is `start + (j + 0.5) * length / size`.

    Attributes:
      start: where the first voxel begins; below 0 where the other axis does not reach so far.
      length: of the other axis's voxels that all of them cover together.
      size: how many they are.
    """

    start: float
    length: float
    size: int

    @property
    def step(self) -> float:
        """Voxels of the other axis in one of these."""
        return self.length / self.size

    def inside(self, n: int) -> slice:
        """Those of the voxels that cover anything of an axis of `n` voxels.

        >>> Span(start=-4.0, length=20.0, size=10).inside(10)
        slice(2, 7, None)
        """
        first = math.floor(-self.start / self.step + _SLIVER)
        last = math.ceil((n - self.start) / self.step - _SLIVER)
        first, last = (min(max(j, 0), self.size) for j in (first, last))
        return slice(first, max(first, last))

    def part(self, voxels: slice) -> "Span":
        """Some of the voxels."""
        if voxels == slice(0, self.size):
            return self
        size = voxels.stop - voxels.start
        return Span(self.start + voxels.start * self.step, size * self.step, size)

    def inverse(self, n: int) -> "Span":
        """The `n` voxels of the other axis along this one."""
        return Span(-self.start / self.step, n * self.size / self.length, n)


Spans = tuple[Span, Span, Span]


@dataclass(frozen=True)
class Sampling:
    """How volumes of any size become images of one shape, and predictions volumes again.

    Without a spacing the grid spans the whole field of view of each volume, whatever its size in mm: nothing is lost,
    and a voxel is of another size in each volume.

    With a spacing every voxel is of that size, and the grid is a box in the middle of the field of view: beyond the
    volume it is filled with air, and what lies outside of it is cut off. The middle is told by the header alone, so
    that training and prediction place the box alike; where it cuts, it is for the user to choose a larger one. It is
    moved by less than a voxel, so that its voxels begin where the volume begins: a volume of that spacing is padded and
    cropped by whole voxels, without interpolation.

    Attributes:
      grid: voxels along x, y, z.
      spacing: mm along x, y, z, or None for the whole field of view.
    """

    grid: Grid
    spacing: Spacing | None = None

    def __str__(self) -> str:
        """
        >>> print(Sampling((192, 192, 96)))
        x:192,y:192,z:96
        >>> print(Sampling((192, 192, 96), (1.5, 1.5, 2.0)))
        x:192,y:192,z:96 of 1.5,1.5,2 mm
        """
        return format_grid(self.grid) + (f" of {format_spacing(self.spacing)} mm" if self.spacing else "")

    def spans(self, shape: Grid, spacing: Spacing) -> Spans:
        """Where the grid lies in a volume.

        >>> Sampling((4, 4, 4)).spans((8, 6, 4), (1.0, 1.0, 1.0))[1]
        Span(start=0.0, length=6, size=4)
        >>> Sampling((4, 4, 4), (2.0, 2.0, 2.0)).spans((8, 6, 4), (1.0, 1.0, 1.0))[2]  # 1 voxel of air at each end
        Span(start=-2.0, length=8.0, size=4)

        Args:
          shape: voxels of the volume along x, y, z.
          spacing: their size in mm.

        Returns:
          For each axis the grid's voxels along the volume's.
        """
        if self.spacing is None:
            return whole_field(shape, self.grid)
        spans = []
        for n, own, g, mm in zip(shape, spacing, self.grid, self.spacing, strict=True):
            step = mm / own
            before = math.floor((g - n / step) / 2 + _SLIVER)  # voxels of air, or, below 0, of what is cropped
            spans.append(Span(-before * step, g * step, g))
        return tuple(spans)


def whole_field(shape: Grid, grid: Grid) -> Spans:
    """A grid over the whole of a volume of `shape`."""
    return tuple(Span(0.0, n, g) for n, g in zip(shape, grid, strict=True))


def way_back(spans: Spans, shape: Grid) -> tuple[tuple[slice, slice, slice], Spans]:
    """Where a volume lies on its grid.

    Args:
      spans: the grid's voxels along the volume's.
      shape: voxels of the volume along x, y, z.

    Returns:
      The part of the grid that covers anything of the volume, and the volume's voxels along that part: what is found in
      the air around a volume has no say in its outermost voxels.
    """
    part = tuple(span.inside(n) for span, n in zip(spans, shape, strict=True))
    back = (span.part(voxels).inverse(n) for span, voxels, n in zip(spans, part, shape, strict=True))
    return part, tuple(back)


def smallest_box(volumes: Iterable[tuple[Grid, Spacing]], spacing: Spacing) -> Grid:
    """The smallest box of `spacing` that holds every volume, in multiples of 16 voxels.

    >>> smallest_box([((512, 512, 40), (0.8, 0.8, 5.0)), ((512, 512, 300), (0.7, 0.7, 1.0))], (1.5, 1.5, 2.0))
    (288, 288, 160)

    Args:
      volumes: shape and spacing in mm of each.
      spacing: of the box, in mm.
    """
    needed = [[n * own / mm for n, own, mm in zip(*volume, spacing, strict=True)] for volume in volumes]
    widest = map(max, zip(*needed, strict=True))
    return tuple(math.ceil((voxels - _SLIVER) / BOX_MULTIPLE) * BOX_MULTIPLE for voxels in widest)


def parse_spacing(spacing: str | float | Iterable[float] | None) -> Spacing | None:
    """Reads a spacing.

    >>> parse_spacing("1.5,1.5,2")
    (1.5, 1.5, 2.0)
    >>> parse_spacing(2)
    (2.0, 2.0, 2.0)

    Args:
      spacing: mm along x, y and z, or one number for all; "" or None for none.

    Raises:
      DataError: it is not one or three positive numbers.
    """
    text = str(spacing).strip("()[] ")
    if spacing is None or not text:
        return None
    try:
        mm = [float(word) for word in text.replace(";", ",").split(",")]
    except ValueError:
        mm = []
    mm = mm * 3 if len(mm) == 1 else mm
    if len(mm) != len(AXIS_NAMES) or not all(math.isfinite(size) and size > 0 for size in mm):
        raise DataError(
            f"spacing '{spacing}': needs a positive size in mm along x, y and z. Fix: for instance '1.5,1.5,2'."
        )
    return tuple(mm)


def format_spacing(spacing: Spacing | None) -> str:
    """Writes a spacing as `parse_spacing` reads it; "" for none.

    >>> format_spacing((1.5, 1.5, 2.0))
    '1.5,1.5,2'
    """
    return ",".join(repr(mm).removesuffix(".0") for mm in spacing or ())


def parse_sampling(resolution: str | int, spacing: str | float | Iterable[float] | None = None) -> Sampling:
    """Reads a resolution, as `parse_grid`, and a spacing, as `parse_spacing`."""
    return Sampling(parse_grid(resolution), parse_spacing(spacing))
