"""Parses and checks patch sizes."""

from collections.abc import Sequence
from numbers import Integral

from mtf_imaging.data.sampling.grid import AXIS_NAMES, format_grid, parse_grid
from mtf_imaging.errors import ConfigError


def parse_patch(patch: str | int | Sequence[int], names: Sequence[str] = AXIS_NAMES) -> tuple[int, ...]:
    """Parses a patch size into voxels along each dimension.

    >>> parse_patch("x:64,y:64,z:32"), parse_patch((64, 64, 32))
    ((64, 64, 32), (64, 64, 32))

    Args:
      patch: 64 or "64" for a cube, the named sizes, or a sequence with a number for each dimension.
      names: the dimension names.

    Raises:
      ConfigError, DataError, LayoutError: the patch is malformed.
    """
    if isinstance(patch, str | int):
        return parse_grid(patch, len(names), names)
    if len(patch) != len(names) or not all(isinstance(size, Integral) and size > 0 for size in patch):
        what = f"patch = {patch!r}: needs a positive number of voxels along each of {', '.join(names)}"
        raise ConfigError(f"{what}. Fix: give, for example, 64 or {(64, 64, 32)[: len(names)]}.", ["patch"])
    return tuple(map(int, patch))


def check_patch(
    patch: Sequence[int], image: Sequence[int], of: str = "images", names: Sequence[str] = AXIS_NAMES
) -> None:
    """Raises ConfigError if a patch is larger than an image.

    Args:
      patch: voxels of the patch along each dimension.
      image: voxels of the image along each dimension.
      of: a noun for the image, for the message.
      names: the dimension names.
    """
    if any(size > most for size, most in zip(patch, image, strict=True)):
        shown, whole, smaller = (format_grid(sizes, names) for sizes in (patch, image, map(min, patch, image)))
        what = f"patch {shown} does not lie within {of} of {whole} voxels"
        fix = f"use a patch of at most {smaller}, or leave patch out to train on whole images"
        raise ConfigError(f"{what}. Fix: {fix}.", ["patch"])
