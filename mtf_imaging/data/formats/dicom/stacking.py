"""Stacks planes into a volume: checks that they belong together, orders them and derives the affine."""

import itertools
from collections.abc import Sequence

import numpy as np

from mtf_imaging.data.formats.dicom.headers import Plane
from mtf_imaging.files.reading import Fault

_LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
_SAME_DIRECTION = 1e-3  # for components of unit vectors; headers round them to 4 to 6 digits
_SAME_SIZE = 1e-3  # relative, for pixel sizes
# In steps between planes. Headers round positions, so steps of 0.625 mm become 0.62 or 0.63 mm.
_SAME_PLACE = 0.1
_MISSING = 1.5
# In pixels, or in steps. Rounding stays below it, and a gantry tilt of one degree exceeds it within a few planes.
_SHIFTED = 0.5
_SHOWN = 3  # files in a message


def stack(planes: Sequence[Plane]) -> tuple[list[Plane], np.ndarray]:
    """Orders the planes of a volume.

    Args:
      planes: one or more planes in any order.

    Returns:
      The planes in the order of their positions along the normal, and the affine, `[4, 4]` float64, from (column, row,
      plane) to mm in RAS+.

    Raises:
      Fault: the planes belong to several series; their sizes, pixel sizes or orientations differ; planes are missing,
        occur twice or have varying distances; or the gantry was tilted.
    """
    _check_alike(planes)
    normal = planes[0].normal
    ordered = sorted(planes, key=lambda plane: float(plane.position @ normal))
    step = _step(ordered, normal)
    _check_no_shift(ordered, normal)
    first = ordered[0]
    columns, rows = first.pixel_size
    lps = np.eye(4)
    lps[:3, :3] = np.stack([first.along_row * columns, first.along_column * rows, normal * step], axis=1)
    lps[:3, 3] = first.position
    return ordered, _LPS_TO_RAS @ lps


def _check_alike(planes: Sequence[Plane]) -> None:
    """Raises Fault if the planes belong to several series, or differ in size, orientation or pixel size."""
    if len({plane.series for plane in planes}) > 1:
        series = {plane.series: f"{plane.description}, such as {plane.path.name}" for plane in reversed(planes)}
        shown = "; ".join([*series.values()][:_SHOWN])
        what = f"holds files of {len(series)} DICOM series, not of one ({shown})"
        raise Fault(what, "move each series to a folder of its own")
    for name, numbers, absolute, relative in (
        ("size", [plane.size for plane in planes], 0, 0),
        ("orientation", [(*plane.along_row, *plane.along_column) for plane in planes], _SAME_DIRECTION, 0),
        ("pixel size", [plane.pixel_size for plane in planes], 0, _SAME_SIZE),
    ):
        usual = np.median(numbers, axis=0)
        odd = ~np.isclose(numbers, usual, rtol=relative, atol=absolute).all(axis=1)
        if odd.any():
            files = [plane.path.name for plane, is_odd in zip(planes, odd, strict=True) if is_odd]
            own, most = (" x ".join(f"{one:.4g}" for one in each) for each in (numbers[odd.argmax()], usual))
            of = f"{own} in {files[0]} and {len(files) - 1} other file(s), but {most} in the median"
            raise Fault(f"the planes differ in their {name}: {of}", "keep the files of one volume, without localizers")


def _step(ordered: Sequence[Plane], normal: np.ndarray) -> float:
    """Returns the distance in mm between neighboring planes.

    Raises:
      Fault: the distances vary, or there is one plane without a thickness.
    """
    if len(ordered) == 1:
        if ordered[0].thickness is None:
            what = f"{ordered[0].path.name} is its only plane and has no SliceThickness, so the voxel size is not known"
            raise Fault(what, "add the other files of the series")
        return ordered[0].thickness
    heights = np.array([plane.position @ normal for plane in ordered])
    steps = np.diff(heights)
    usual = float(np.median(steps))
    pairs = [f"{below.path.name} and {above.path.name}" for below, above in itertools.pairwise(ordered)]
    # With two files per plane, half of the steps are 0, so their median may be 0.
    same = steps <= _SAME_PLACE * (usual or float(steps.max()))
    if same.any():
        what = f"{pairs[same.argmax()]} lie in the same place, as do {same.sum() - 1} other pairs of files"
        raise Fault(what, "keep only one file for each plane, for example one phase of contrast")
    gaps = steps >= _MISSING * usual
    if gaps.any():
        missing, at = (np.rint(steps[gaps] / usual) - 1).sum(), gaps.argmax()
        what = f"the planes are {usual:g} mm apart, but {pairs[at]} {steps[at]:g} mm"
        raise Fault(f"{missing:.0f} plane(s) are missing: {what}", "add the missing files of the series")
    mean = float(heights[-1] - heights[0]) / (len(ordered) - 1)
    drift = heights - np.linspace(heights[0], heights[-1], len(ordered))
    if np.abs(steps - mean).max() > _SAME_PLACE * mean or np.abs(drift).max() > _SHIFTED * mean:
        least, most = (f"{steps[at]:g} mm ({pairs[at]})" for at in (steps.argmin(), steps.argmax()))
        what = f"the distances between planes vary from {least} to {most}"
        raise Fault(what, "resample the series to a constant distance, for example with dcm2niix")
    return mean


def _check_no_shift(ordered: Sequence[Plane], normal: np.ndarray) -> None:
    """Raises Fault if the planes do not lie on top of each other, for instance because the gantry was tilted."""
    moved = np.array([plane.position - ordered[0].position for plane in ordered])
    aside = moved - np.outer(moved @ normal, normal)
    shifts = np.linalg.norm(aside, axis=1)
    most = _SHIFTED * min(ordered[0].pixel_size)
    if shifts.max() <= most:
        return
    # A tilt shifts every plane by the same distance from the plane below.
    even = np.linalg.norm(aside - np.outer(np.linspace(0, 1, len(ordered)), aside[-1]), axis=1)
    if even.max() <= most:
        angle = np.degrees(np.arctan2(shifts[-1], moved[-1] @ normal))
        what = f"the gantry was tilted by {angle:.1f} degrees (GantryDetectorTilt is {ordered[0].tilt:g})"
        fix = "resample the series to perpendicular planes, for example with dcm2niix, and give the NIfTI file"
        raise Fault(f"{what}: the planes shift sideways by {shifts[-1]:.1f} mm", fix)
    jumps = np.linalg.norm(np.diff(aside, axis=0), axis=1)
    odd = int(jumps.argmax())
    shift = f"is shifted sideways by {jumps[odd]:.1f} mm from {ordered[odd].path.name}"
    what = f"the planes do not lie on top of each other: {ordered[odd + 1].path.name} {shift}"
    raise Fault(what, "keep only the files of one volume")
