"""Chooses one or several grids for records from the sizes of the cases."""

from collections.abc import Mapping, Sequence

import numpy as np

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.spacing_table import SpacingTable
from mtf_imaging.data.listing.image_formats import is_picture_ending
from mtf_imaging.data.records.conversion import case_geometries
from mtf_imaging.data.sampling.buckets import (
    AnySampling,
    Samplings,
    choose_grids,
    group_by_grid,
    make_sampling,
    padding,
)
from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid, format_grid
from mtf_imaging.data.sampling.sampling import Sampling, Spacing, format_spacing, smallest_box

_SHOWN = 8  # cases per grid that are named in the output
_COARSER = 1.25  # relative to the voxels of the cases; records with larger voxels lose detail


def choose_sampling(
    cases: list[Case], spacing: Spacing, known: SpacingTable, description: Description, grids: int, multiple: int
) -> tuple[AnySampling, str]:
    """Returns the smallest grids that cover every case, and lines that describe them.

    Args:
      cases: the cases.
      spacing: voxel size of the grids in mm.
      known: voxel sizes of files whose headers lack them.
      description: the channels of the images.
      grids: the largest number of grids.
      multiple: all sizes are multiples of this number.
    """
    geometries = case_geometries(cases, known, description)
    volumes = [(geometry.shape, geometry.spacing) for geometry in geometries.values()]
    one = Sampling(_flattened(smallest_box(volumes, spacing, multiple), description), spacing)
    if grids > 1:
        chosen = choose_grids(volumes, spacing, grids, multiple)
        sampling = make_sampling((_flattened(grid, description) for grid in chosen), spacing)
        if isinstance(sampling, Samplings):
            return sampling, _text_of_grids(geometries, sampling, one, multiple)
    return one, _text_of_box(geometries, one, multiple)


def propose_spacing(volumes: Sequence[tuple[Grid, Spacing]], grid: Grid) -> str | None:
    """Returns a line that proposes the spacing of the cases, if records of the whole field of view lose detail.

    >>> propose_spacing([((120, 100, 30), (3.0, 3.0, 3.0))], (64, 64, 64))
    'voxels: 3,3,3 mm in the median case, 5.62,4.69,1.41 mm in its record: x, y lose detail. Spacing 3,3,3 keeps it.'

    Args:
      volumes: the shape of each case and its voxel size in mm.
      grid: voxels of a record along x, y and z.

    Returns:
      The line, or None if the voxels of the records are about as large or smaller.
    """
    shape, spacing = (np.median(values, axis=0) for values in zip(*volumes, strict=True))
    resampled = shape * spacing / grid
    coarse = [name for name, mm, own in zip(AXIS_NAMES, resampled, spacing, strict=True) if mm > _COARSER * own]
    if not coarse:
        return None
    own, record = (",".join(f"{mm:.3g}" for mm in values) for values in (spacing, resampled))
    what = f"{own} mm in the median case, {record} mm in its record: {', '.join(coarse)} lose detail"
    return f"voxels: {what}. Spacing {own} keeps it."


def is_flat(description: Description) -> bool:
    """Returns whether the images are pictures, which are volumes of one plane."""
    return is_picture_ending(description.file_ending)


def _flattened(grid, description: Description):
    return (*grid[:2], 1) if is_flat(description) else grid


def _text_of_box(geometries: Mapping[str, Geometry], sampling: Sampling, multiple: int) -> str:
    """Returns a line that names the largest cases."""
    extents = {key: [n * mm for n, mm in zip(g.shape, g.spacing, strict=True)] for key, g in geometries.items()}
    largest = []
    for axis, name in enumerate(AXIS_NAMES):
        key = max(extents, key=lambda key: extents[key][axis])
        largest.append(f"{name} {extents[key][axis]:.0f} mm (case {key})")
    what = f"the smallest that covers every case, in multiples of {multiple} voxels"
    return f"box: {sampling}, {what}; largest extents: {', '.join(largest)}"


def _text_of_grids(geometries: Mapping[str, Geometry], sampling: Samplings, one: Sampling, multiple: int) -> str:
    """Returns a line per grid with its cases, and a line about padding."""
    keys = list(geometries)
    volumes = [(geometry.shape, geometry.spacing) for geometry in geometries.values()]
    spacing = format_spacing(sampling.spacing)
    lines = [f"{len(sampling.grids)} grids of {spacing} mm, in multiples of {multiple} voxels:"]
    for grid, at in group_by_grid([sampling.choose(*volume).grid for volume in volumes]).items():
        shown = ", ".join(keys[number] for number in at[:_SHOWN]) + (", ..." if len(at) > _SHOWN else "")
        lines.append(f"  {format_grid(grid)}: {len(at)} case{'s' * (len(at) > 1)} ({shown})")
    would = f"it would be {padding(volumes, one):.0%} with one grid, {format_grid(one.grid)}"
    lines.append(f"padding: {padding(volumes, sampling):.0%} of the voxels; {would}")
    return "\n".join(lines)
