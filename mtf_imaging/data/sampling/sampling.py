"""Places the voxels of a network's input in a volume: over the whole field of view, or at a fixed size in mm."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid, Region, format_grid, whole_region
from mtf_imaging.errors import DataError

Spacing = tuple[float, float, float]

BOX_MULTIPLE = 16  # Any size is valid; networks that halve these sizes, and layouts that split them, waste no voxels.
SLIVER = 1e-3  # in voxels; absorbs rounding errors of 32-bit headers
# In voxels of the grid or of the volume, whichever are smaller. A volume that exceeds a grid by less needs no further
# voxel: headers round sizes, as in 3.001 mm for 3 mm. No voxel of the volume is lost, because its center is covered.
EXCESS = 0.25

AVERAGE, LINE, SPLINE, NEAREST = "average", "line", "spline", "nearest"  # kernels; see `interpolation.weights`


@dataclass(frozen=True)
class Span:
    """Evenly spaced voxels of one axis, in coordinates of a reference axis whose voxel i covers [i, i + 1).

    Voxel j covers `start + [j, j + 1) * length / size`; its center is `start + (j + 0.5) * length / size`.

    Attributes:
      start: start of the first voxel; negative if it lies before the reference axis.
      length: total length of the voxels, in voxels of the reference axis.
      size: number of voxels.
      kernel: how the voxels are interpolated along the reference axis.
      back: the same for the way back; see `inverse`.
      within: the first voxel that may overlap the reference axis, and the one after the last; None for all voxels.
    """

    start: float
    length: float
    size: int
    kernel: str = field(default=AVERAGE, repr=False)
    back: str = field(default=AVERAGE, repr=False)
    within: tuple[int, int] | None = field(default=None, repr=False)

    @property
    def step(self) -> float:
        """Length of one voxel, in voxels of the reference axis."""
        return self.length / self.size

    def inside(self, n: int) -> slice:
        """Returns the range of voxels that overlap a reference axis of `n` voxels.

        >>> Span(start=-4.0, length=20.0, size=10).inside(10)
        slice(2, 7, None)
        """
        first = math.floor(-self.start / self.step + SLIVER)
        last = math.ceil((n - self.start) / self.step - SLIVER)
        low, high = self.within or (0, self.size)
        first, last = (min(max(j, low), high) for j in (first, last))
        return slice(first, max(first, last))

    def part(self, voxels: slice) -> "Span":
        """Returns the span of a range of this span's voxels."""
        if voxels == slice(0, self.size):
            return self
        size = voxels.stop - voxels.start
        return replace(self, start=self.start + voxels.start * self.step, length=size * self.step, size=size)

    def inverse(self, n: int) -> "Span":
        """Returns the `n` voxels of the reference axis in coordinates of this span."""
        return Span(-self.start / self.step, n * self.size / self.length, n, self.back, self.kernel)


Spans = tuple[Span, Span, Span]


@dataclass(frozen=True)
class Sampling:
    """The resolution and spacing to which volumes of any size are resampled.

    Without a spacing, the grid spans the whole field of view of each volume. Nothing is cropped, and the voxel size
    differs from volume to volume.

    With a spacing, every voxel has that size, and the grid is a box in the center of the field of view. The box is
    padded with air where it extends beyond the volume, and the volume is cropped where it extends beyond the box. The
    center depends only on the header, so training and prediction place the box identically. If the box crops too much,
    choose a larger one. The box is shifted by less than a voxel to align it with the first voxel of the volume; an
    excess of the volume over the box by less than a quarter of a voxel lies after the box. A
    volume that already has this spacing is padded and cropped by whole voxels, without interpolation.

    Attributes:
      grid: number of voxels along x, y, z.
      spacing: voxel size in mm along x, y, z, or None for the whole field of view.
      kernels: `Span.kernel` and `Span.back` along x, y, z; only with a spacing.
      reversed_axes: axes along which an odd voxel of padding comes before the volume instead of after it.
    """

    grid: Grid
    spacing: Spacing | None = None
    kernels: tuple[tuple[str, str], ...] = ((AVERAGE, AVERAGE),) * 3
    reversed_axes: tuple[int, ...] = field(default=(), repr=False)
    follows_nnunet = False  # see `OwnSize`

    def __str__(self) -> str:
        """Formats the sampling for messages.

        >>> print(Sampling((192, 192, 96)))
        x:192,y:192,z:96
        >>> print(Sampling((192, 192, 96), (1.5, 1.5, 2.0)))
        x:192,y:192,z:96 of 1.5,1.5,2 mm
        """
        return format_grid(self.grid) + (f" of {format_spacing(self.spacing)} mm" if self.spacing else "")

    @property
    def grids(self) -> tuple[Grid, ...]:
        """The only grid, as a tuple; see `data.sampling.buckets.Samplings`."""
        return (self.grid,)

    def choose(self, shape: Grid, spacing: Spacing) -> "Sampling":
        """Returns this sampling, which is the same for all volumes; see `data.sampling.buckets.Samplings`."""
        del shape, spacing
        return self

    def spans(self, shape: Grid, spacing: Spacing) -> Spans:
        """Returns the position of the grid in a volume.

        >>> Sampling((4, 4, 4)).spans((8, 6, 4), (1.0, 1.0, 1.0))[1]
        Span(start=0.0, length=6, size=4)
        >>> Sampling((4, 4, 4), (2.0, 2.0, 2.0)).spans((8, 6, 4), (1.0, 1.0, 1.0))[2]  # 1 voxel of air at each end
        Span(start=-2.0, length=8.0, size=4)

        Args:
          shape: size of the volume in voxels along x, y, z.
          spacing: voxel size of the volume in mm.

        Returns:
          The voxels of the grid along each axis, in volume coordinates.
        """
        if self.spacing is None:
            return whole_field(shape, self.grid)
        spans = []
        for axis, (n, own, g, mm) in enumerate(zip(shape, spacing, self.grid, self.spacing, strict=True)):
            step = mm / own
            half, slack = (g - n / step) / 2, EXCESS * min(1, 1 / step) / 2
            # Voxels of padding, or of cropping if negative.
            before = math.ceil(half - slack) if axis in self.reversed_axes else math.floor(half + slack)
            spans.append(Span(-before * step, g * step, g, *self.kernels[axis]))
        return tuple(spans)


def whole_field(shape: Grid, grid: Grid) -> Spans:
    """Returns the spans of a grid that covers a whole volume of `shape`."""
    return tuple(Span(0.0, n, g) for n, g in zip(shape, grid, strict=True))


def way_back(spans: Spans, shape: Grid, crop: Region | None = None) -> tuple[Region, Spans]:
    """Returns the spans that resample a prediction from the grid to its volume.

    Only the region of the grid that overlaps the volume is used, so predictions in the surrounding air do not affect
    the outermost voxels.

    Args:
      spans: the voxels of the grid, in coordinates of the volume or of its crop.
      shape: size of the volume in voxels along x, y, z.
      crop: the region of the volume that was resampled; None for the whole volume.

    Returns:
      The region of the grid that overlaps the volume or its crop, and the voxels of the volume in coordinates of that
      region.
    """
    part, back = [], []
    for span, n, at in zip(spans, shape, crop or whole_region(shape), strict=True):
        own = at.stop - at.start
        part.append(span.inside(own))
        whole = span.part(part[-1]).inverse(own).part(slice(-at.start, n - at.start))
        back.append(replace(whole, within=(at.start, at.stop)))
    return tuple(part), tuple(back)


def smallest_box(volumes: Iterable[tuple[Grid, Spacing]], spacing: Spacing, multiple: int = BOX_MULTIPLE) -> Grid:
    """Returns the smallest box of `spacing` that covers every volume, in multiples of 16 voxels.

    >>> smallest_box([((512, 512, 40), (0.8, 0.8, 5.0)), ((512, 512, 300), (0.7, 0.7, 1.0))], (1.5, 1.5, 2.0))
    (288, 288, 160)

    Args:
      volumes: (shape, spacing in mm) of each volume.
      spacing: voxel size of the box in mm.
      multiple: all sizes are multiples of this number.
    """
    widest = map(max, zip(*(voxels_to_cover(*volume, spacing) for volume in volumes), strict=True))
    return tuple(math.ceil(voxels / multiple) * multiple for voxels in widest)


def voxels_to_cover(shape: Grid, own: Spacing, spacing: Spacing) -> Grid:
    """Returns the number of voxels with another spacing that cover a volume, except for an excess of a quarter voxel.

    Args:
      shape: size of the volume in voxels along x, y, z.
      own: voxel size of the volume in mm.
      spacing: the other voxel size in mm.
    """
    ratios = [mine / mm for mine, mm in zip(own, spacing, strict=True)]
    return tuple(math.ceil(n * ratio - EXCESS * min(1, ratio)) for n, ratio in zip(shape, ratios, strict=True))


def parse_spacing(spacing: str | float | Iterable[float] | None, may_keep: bool = False) -> Spacing | None:
    """Parses a spacing.

    >>> parse_spacing("1.5,1.5,2")
    (1.5, 1.5, 2.0)
    >>> parse_spacing(2)
    (2.0, 2.0, 2.0)

    Args:
      spacing: voxel size in mm along x, y and z, or one number for all three; "" or None for no spacing.
      may_keep: whether a size may be 0, for the voxels of the volume.

    Raises:
      DataError: the spacing is not one or three positive numbers.
    """
    text = str(spacing).strip("()[] ")
    if spacing is None or not text:
        return None
    try:
        mm = [float(word) for word in text.replace(";", ",").split(",")]
    except ValueError:
        mm = []
    mm = mm * 3 if len(mm) == 1 else mm
    if len(mm) != len(AXIS_NAMES) or not all(math.isfinite(size) and (size or may_keep) and size >= 0 for size in mm):
        what = f"spacing '{spacing}': needs a positive size in mm along x, y and z"
        raise DataError(f"{what}. Fix: give, for example, '1.5,1.5,2'.")
    return tuple(mm)


def format_spacing(spacing: Spacing | None) -> str:
    """Formats a spacing as a string that `parse_spacing` accepts; no spacing becomes an empty string.

    >>> format_spacing((1.5, 1.5, 2.0))
    '1.5,1.5,2'
    """
    return ",".join(repr(mm).removesuffix(".0") for mm in spacing or ())
