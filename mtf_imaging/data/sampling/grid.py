"""Parses and formats the resolution of a voxel grid, such as `64` or `x:192,y:192,z:96`."""

from collections.abc import Iterable, Sequence

from mtf_imaging.engine.layout import parse_shape
from mtf_imaging.errors import DataError, LayoutError

AXIS_NAMES = ("x", "y", "z")
PHOTO_AXES = ("height", "width")
Grid = tuple[int, int, int]
Region = tuple[slice, slice, slice]  # axis names of a grid


def parse_grid(resolution: str | int, dims: int = 3, names: Sequence[str] = AXIS_NAMES) -> Grid:
    """Parses a resolution.

    >>> parse_grid("64")
    (64, 64, 64)
    >>> parse_grid("z:96, x:192, y:192")
    (192, 192, 96)
    >>> parse_grid("height:512,width:1024", 2, PHOTO_AXES)
    (512, 1024)

    Args:
      resolution: the side length of a cube in voxels, or the named sizes of x, y and z.
      dims: number of spatial dimensions; 2 for images, which have no z.
      names: the dimension names.

    Returns:
      Number of voxels along x, y, z, or along the other dimensions of `names`.

    Raises:
      LayoutError: the string does not have the format of a shape.
      DataError: x, y and z do not each have a positive size.
    """
    axes = tuple(names[:dims])
    text = str(resolution).strip()
    example = ",".join(f"{name}:{size}" for name, size in zip(axes, (192, 192, 96)))
    fix = f"Fix: give, for example, '64' or '{example}'."
    try:
        sizes = dict.fromkeys(axes, int(text)) if text.isdigit() else dict(parse_shape(text, "resolution"))
    except LayoutError as error:
        raise LayoutError(f"{error}\n  {fix}") from error
    if sorted(sizes) != sorted(axes) or min(sizes.values()) < 1:
        needed = " and ".join(", ".join(axes).rsplit(", ", 1))
        raise DataError(f"resolution '{text}': needs a positive size for {needed}. {fix}")
    return tuple(sizes[name] for name in axes)


def format_grid(grid: Iterable[int], names: Sequence[str] = AXIS_NAMES) -> str:
    """Formats a grid as a string that `parse_grid` accepts.

    >>> format_grid((192, 192, 96))
    'x:192,y:192,z:96'
    """
    return ",".join(f"{name}:{size}" for name, size in zip(names, grid))


def whole_region(grid: Grid) -> Region:
    """Returns the region that covers a grid."""
    x, y, z = (slice(0, size) for size in grid)
    return x, y, z
