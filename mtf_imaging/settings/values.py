"""Types of values that several settings have, and how they are parsed."""

from collections.abc import Sequence

from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.errors import ConfigError

AUTO = "auto"  # train chooses the layout for its devices
DTYPES = ("float32", "bfloat16", "float64")
MODEL_FORMATS = ("saved_model", "onnx", "tflite")
ONE_SCALE = (1.0,)

# Voxels along x, y and z: 64 or "64" for a cube, "x:192,y:192,z:96", or a sequence with one number per dimension. The
# resolution of records with several grids is a string with all of them, separated by "|". The resolution of photos is
# their crop: 513, or "height:513,width:1025".
Resolution = str | int | Sequence[int]
# The voxel size in mm: "1.5,1.5,2", one number for all dimensions, or one number for each of x, y and z.
Spacing = str | float | tuple[float, float, float]


def parse_resolution(resolution: Resolution, dims: int = 3, names: Sequence[str] = AXIS_NAMES) -> tuple[int, ...]:
    """Returns the voxels along each dimension; if there are several grids, the voxels of the largest.

    Args:
      resolution: the resolution in any form that `Resolution` allows.
      dims: number of spatial dimensions.
      names: the dimension names.

    Raises:
      DataError, LayoutError: the resolution is malformed.
    """
    if isinstance(resolution, str | int):
        return parse_grids(resolution, dims, names)[-1]
    return tuple(int(size) for size in resolution)


def check_flips(flips: Sequence[str], axis_names: Sequence[str] = AXIS_NAMES) -> tuple[str, ...]:
    """Returns the axes of `flips` as a tuple.

    Args:
      flips: names of axes.
      axis_names: the names of the axes of the images.

    Raises:
      ConfigError: a name is not an axis of the images, or is repeated.
    """
    axes = tuple(flips)
    if not {*axes} <= {*axis_names} or len({*axes}) < len(axes):
        raise ConfigError(
            f"flips = {axes!r}: not axes of the images. Fix: list each of {', '.join(axis_names)} at most once.",
            ["flips"],
        )
    return axes
