"""The grid of voxels that a volume is resampled to: `64`, or `x:192,y:192,z:96`."""

from mtf_imaging.data.geometry import AXIS_NAMES
from mtf_imaging.errors import DataError
from mtf_imaging.layout import parse_shape

Grid = tuple[int, int, int]


def parse_grid(resolution: str | int) -> Grid:
    """Reads a resolution.

    >>> parse_grid("64")
    (64, 64, 64)
    >>> parse_grid("z:96, x:192, y:192")
    (192, 192, 96)

    Args:
      resolution: the side of a cube in voxels, or the size of each of x, y and z by name.

    Returns:
      Voxels along x, y, z.

    Raises:
      LayoutError: the string is no shape.
      DataError: it does not give x, y and z a positive size each.
    """
    text = str(resolution).strip()
    sizes = dict.fromkeys(AXIS_NAMES, int(text)) if text.isdigit() else dict(parse_shape(text, "resolution"))
    if sorted(sizes) != sorted(AXIS_NAMES) or min(sizes.values()) < 1:
        raise DataError(
            f"resolution '{text}': needs positive sizes of x, y and z. Fix: for instance '64' or 'x:192,y:192,z:96'."
        )
    return tuple(sizes[name] for name in AXIS_NAMES)


def format_grid(grid: Grid) -> str:
    """Writes a grid as `parse_grid` reads it.

    >>> format_grid((192, 192, 96))
    'x:192,y:192,z:96'
    """
    return ",".join(f"{name}:{size}" for name, size in zip(AXIS_NAMES, grid, strict=True))
