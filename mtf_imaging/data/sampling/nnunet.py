"""The voxel grid and the interpolation of nnU-Net."""

from collections.abc import Callable

from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import LINE, NEAREST, SPLINE, Sampling, Spacing

_ANISOTROPIC = 3.0  # the ratio of voxel sizes above which nnU-Net does not interpolate between slices


def sampling(
    shape: Grid, spacing: Spacing, target: Spacing, fill_up: Callable[[Grid], Grid], reversed_axes: tuple[int, ...] = ()
) -> Sampling:
    """Returns the grid of a volume in nnU-Net.

    The number of voxels along each axis is rounded, and they cover the field of view exactly. So their size differs a
    little from `target`.

    >>> sampling((10, 10, 4), (1.0, 1.0, 5.0), (0.75, 0.75, 5.0), lambda grid: grid)
    Sampling(grid=(13, 13, 4), spacing=(0.7692307692307693, 0.7692307692307693, 5.0), \
kernels=(('spline', 'line'), ('spline', 'line'), ('nearest', 'nearest')))

    Args:
      shape: size of the volume in voxels along x, y, z.
      spacing: voxel size of the volume in mm.
      target: voxel size of the network's input in mm.
      fill_up: maps the voxels of the volume to the sizes of the grid; the rest is 0 on both sides.
      reversed_axes: the axes that the network sees in the opposite direction.
    """
    voxels = [max(1, round(own / mm * n)) for own, mm, n in zip(spacing, target, shape, strict=True)]
    exact = tuple(own * n / new for own, n, new in zip(spacing, shape, voxels, strict=True))
    into, back = _axis_apart(spacing, target), _axis_apart(target, spacing)
    kernels = [(NEAREST if a == into else SPLINE, NEAREST if a == back else LINE) for a in range(3)]
    return Sampling(fill_up(tuple(voxels)), exact, tuple(kernels), reversed_axes)


def _axis_apart(first: Spacing, second: Spacing) -> int | None:
    """Returns the axis with the longest voxels if nnU-Net interpolates the slices along it one by one."""
    for mm in (first, second):
        if max(mm) / min(mm) > _ANISOTROPIC:
            return mm.index(max(mm)) if mm.count(max(mm)) == 1 else None
    return None
