"""The grid of voxels that a volume is resampled to: `64`, or `x:192,y:192,z:96`."""

from collections.abc import Iterable

from mtf_imaging.errors import DataError, LayoutError
from mtf_imaging.layout import parse_shape

AXIS_NAMES = ("x", "y", "z")
Grid = tuple[int, int, int]


def parse_grid(resolution: str | int, dims: int = 3) -> Grid:
    """Reads a resolution.

    >>> parse_grid("64")
    (64, 64, 64)
    >>> parse_grid("z:96, x:192, y:192")
    (192, 192, 96)

    Args:
      resolution: the side of a cube in voxels, or the size of each of x, y and z by name.
      dims: 2 for images, which have no z.

    Returns:
      Voxels along x, y, z.

    Raises:
      LayoutError: the string is no shape.
      DataError: it does not give x, y and z a positive size each.
    """
    axes = AXIS_NAMES[:dims]
    text = str(resolution).strip()
    example = ",".join(f"{name}:{size}" for name, size in zip(axes, (192, 192, 96)))
    fix = f"Fix: for instance '64' or '{example}'."
    try:
        sizes = dict.fromkeys(axes, int(text)) if text.isdigit() else dict(parse_shape(text, "resolution"))
    except LayoutError as error:
        raise LayoutError(f"{error}\n  {fix}") from error
    if sorted(sizes) != sorted(axes) or min(sizes.values()) < 1:
        raise DataError(
            f"resolution '{text}': needs positive sizes of {' and '.join(', '.join(axes).rsplit(', ', 1))}. {fix}"
        )
    return tuple(sizes[name] for name in axes)


def format_grid(grid: Iterable[int]) -> str:
    """Writes a grid as `parse_grid` reads it.

    >>> format_grid((192, 192, 96))
    'x:192,y:192,z:96'
    """
    return ",".join(f"{name}:{size}" for name, size in zip(AXIS_NAMES, grid))
