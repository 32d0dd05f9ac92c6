"""The sizes of patches."""

from collections.abc import Sequence

from mtf_imaging.data.sampling.grid import AXIS_NAMES, format_grid
from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.values import Resolution, parse_resolution


def parse_patch(patch: Resolution, image: Sequence[int], names: Sequence[str] = AXIS_NAMES) -> tuple[int, ...]:
    """Returns the voxels of a patch along each dimension.

    Args:
      patch: the patch in any of the forms of `Resolution`.
      image: voxels of the image along each dimension.
      names: the names of the dimensions.

    Raises:
      ConfigError: the patch does not lie within the image.
      DataError, LayoutError: the patch is malformed.
    """
    sizes = parse_resolution(patch, len(image), names)
    if len(sizes) != len(image) or not all(1 <= size <= most for size, most in zip(sizes, image)):
        shown, whole, smaller = (
            format_grid(grid, names) for grid in (sizes, image, [min(*pair) for pair in zip(sizes, image)])
        )
        raise ConfigError(
            f"patch {shown} does not lie within images of {whole} voxels. Fix: use a patch of at most {smaller}, or "
            "leave patch out to train on whole images.",
            ["patch"],
        )
    return sizes
