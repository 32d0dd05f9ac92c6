"""Parses and formats the resolution of a grid of voxels, such as `64` or `x:192,y:192,z:96`."""

from collections.abc import Iterable

from mtf_imaging.errors import DataError, LayoutError
from mtf_imaging.layout import parse_shape

AXIS_NAMES = ("x", "y", "z")
Grid = tuple[int, int, int]


def parse_grid(resolution: str | int, dims: int = 3) -> Grid:
    """Parses a resolution.

    >>> parse_grid("64")
    (64, 64, 64)
    >>> parse_grid("z:96, x:192, y:192")
    (192, 192, 96)

    Args:
      resolution: the side length of a cube in voxels, or the named sizes of x, y and z.
      dims: number of spatial dimensions; 2 for images, which have no z.

    Returns:
      Number of voxels along x, y, z.

    Raises:
      LayoutError: the string does not have the form of a shape.
      DataError: x, y and z do not each have a positive size.
    """
    axes = AXIS_NAMES[:dims]
    text = str(resolution).strip()
    example = ",".join(f"{name}:{size}" for name, size in zip(axes, (192, 192, 96)))
    fix = f"Fix: give, for example, '64' or '{example}'."
    try:
        sizes = dict.fromkeys(axes, int(text)) if text.isdigit() else dict(parse_shape(text, "resolution"))
    except LayoutError as error:
        raise LayoutError(f"{error}\n  {fix}") from error
    if sorted(sizes) != sorted(axes) or min(sizes.values()) < 1:
        raise DataError(
            f"resolution '{text}': needs a positive size for {' and '.join(', '.join(axes).rsplit(', ', 1))}. {fix}"
        )
    return tuple(sizes[name] for name in axes)


def format_grid(grid: Iterable[int]) -> str:
    """Formats a grid as a string that `parse_grid` accepts.

    >>> format_grid((192, 192, 96))
    'x:192,y:192,z:96'
    """
    return ",".join(f"{name}:{size}" for name, size in zip(AXIS_NAMES, grid))
