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


def check_flips(flips: Sequence[str], where: str = "flips", axis_names: Sequence[str] = AXIS_NAMES) -> tuple[str, ...]:
    """Checks the axes of `flips` and returns them as a tuple.

    Args:
      flips: names of axes.
      where: the name of the parameter, for the message.
      axis_names: the names of all axes that can be flipped.

    Raises:
      ConfigError: a name is not an axis, or is repeated.
    """
    axes = tuple(flips) if isinstance(flips, tuple | list | str) else (flips,)
    wrong = [axis for axis in axes if axis not in axis_names]
    if wrong or len(set(axes)) < len(axes):
        what = f"{wrong[0]!r} is not an axis" if wrong else "an axis is repeated"
        raise ConfigError(
            f"{where} = {flips!r}: {what}. "
            f"Fix: list each of {', '.join(axis_names)} at most once, as in {tuple(axis_names[:2])!r}.",
            settings=["flips"],
        )
    return axes


def check_scales(scales: Sequence[float]) -> tuple[float, ...]:
    """Checks scale factors and returns them as a tuple.

    Raises:
      ConfigError: there are no factors, or a factor is not a positive number.
    """
    factors = tuple(scales) if isinstance(scales, tuple | list) else (scales,)
    are_numbers = all(isinstance(one, int | float) and not isinstance(one, bool) and 0 < one < 100 for one in factors)
    if not factors or not are_numbers:
        raise ConfigError(
            f"scales = {scales!r} must be one or more numbers above 0 and below 100. "
            "Fix: use (1.0,) for an image's own size, or several scales such as (0.75, 1.0, 1.25).",
            settings=["scales"],
        )
    return tuple(float(one) for one in factors)
