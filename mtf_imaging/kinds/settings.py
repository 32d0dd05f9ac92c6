"""Settings that jobs share with the kinds of data, and their checks.

This module does not import TensorFlow, so that a mistake is reported without delay.
"""

from collections.abc import Sequence

from mtf_imaging.data.sampling.buckets import parse_grids
from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean

DTYPES = ("float32", "bfloat16", "float64")

# Voxels along x, y and z: 64 or "64" for a cube, "x:192,y:192,z:96", or a sequence with one number per dimension. The
# resolution of records with several grids is a string with all of them, separated by "|". The resolution of photos is
# their crop: 513, or "height:513,width:1025".
Resolution = str | int | Sequence[int]
# The voxel size in mm: "1.5,1.5,2", one number for all dimensions, or one number for each of x, y and z.
Spacing = str | float | tuple[float, float, float]


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raises ConfigError unless the value of a setting is one of its choices."""
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        raise ConfigError(f"{name} = {value!r} is not known.{hint} Fix: choose one of {', '.join(choices)}.", [name])


def parse_resolution(resolution: Resolution, dims: int = 3, names: Sequence[str] = AXIS_NAMES) -> tuple[int, ...]:
    """Returns the voxels along each dimension; those of the largest grid if there are several.

    Args:
      resolution: the resolution in any of the forms of `Resolution`.
      dims: number of spatial dimensions.
      names: the names of the dimensions.

    Raises:
      DataError, LayoutError: the resolution is malformed.
    """
    if isinstance(resolution, str | int):
        return parse_grids(resolution, dims, names)[-1]
    return tuple(int(size) for size in resolution)
