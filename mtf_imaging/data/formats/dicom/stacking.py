"""Stacks planes into a volume: checks that they belong together, orders them and derives the affine."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from mtf_imaging.data.formats.dicom.headers import Plane
from mtf_imaging.errors import DataError

_LPS_TO_RAS = np.diag([-1.0, -1.0, 1.0, 1.0])
_SAME_DIRECTION = 1e-3  # for components of unit vectors; headers round them to 4 to 6 digits
_SAME_SIZE = 1e-3  # relative, for pixel sizes
# In steps between planes. Headers round positions, so steps of 0.625 mm become 0.62 or 0.63 mm.
_SAME_PLACE = 0.1
_MISSING = 1.5
# In pixels, or in steps. Rounding stays below it, and a gantry tilt of one degree exceeds it within a few planes.
_SHIFTED = 0.5
_TILTED_DEGREES = 0.2
_SHOWN = 3  # files in a message
_Value = TypeVar("_Value")


def stack(folder: Path, planes: Sequence[Plane]) -> tuple[list[Plane], np.ndarray]:
    """Orders the planes of a volume.

    Args:
      folder: the folder of the files, for messages.
      planes: one or more planes in any order.

    Returns:
      The planes in the order of their positions along the normal, and the affine, `[4, 4]` float64, from (column, row,
      plane) to mm in RAS+.

    Raises:
      DataError: the planes belong to several series; their sizes, pixel sizes or orientations differ; planes are
        missing, occur twice or have varying distances; or the gantry was tilted.
    """
    _check_one_series(folder, planes)
    _check_same(folder, planes, "size", lambda plane: plane.size, _shown_size, lambda a, b: a == b)
    _check_same(folder, planes, "orientation", _directions, _shown_directions, _close(_SAME_DIRECTION, 0))
    _check_same(folder, planes, "pixel size", lambda plane: plane.pixel_size, _shown_mm, _close(0, _SAME_SIZE))
    normal = planes[0].normal
    ordered = sorted(planes, key=lambda plane: float(plane.position @ normal))
    step = _step(folder, ordered, normal)
    _check_no_shift(folder, ordered, normal)
    first = ordered[0]
    columns, rows = first.pixel_size
    lps = np.eye(4)
    lps[:3, :3] = np.stack([first.along_row * columns, first.along_column * rows, normal * step], axis=1)
    lps[:3, 3] = first.position
    return ordered, _LPS_TO_RAS @ lps


def _check_one_series(folder: Path, planes: Sequence[Plane]) -> None:
    series: dict[str, list[Plane]] = {}
    for plane in planes:
        series.setdefault(plane.series, []).append(plane)
    if len(series) == 1:
        return
    shown = "; ".join(
        f"{members[0].description}: {len(members)} file(s), such as {members[0].path.name}"
        for members in list(series.values())[:_SHOWN]
    )
    more = f"; and {len(series) - _SHOWN} more" if len(series) > _SHOWN else ""
    raise DataError(
        f"{folder}: holds files of {len(series)} DICOM series, not of one ({shown}{more}). "
        "Fix: move each series to a folder of its own."
    )


def _check_same(
    folder: Path,
    planes: Sequence[Plane],
    name: str,
    value: Callable[[Plane], _Value],
    shown: Callable[[_Value], str],
    equal: Callable[[_Value, _Value], bool],
) -> None:
    """Raises DataError if a value differs between planes, and names the files that differ from the majority."""
    groups: list[list[Plane]] = []
    for plane in planes:
        group = next((group for group in groups if equal(value(group[0]), value(plane))), None)
        if group is None:
            groups.append([plane])
        else:
            group.append(plane)
    if len(groups) == 1:
        return
    most, *others = sorted(groups, key=len, reverse=True)
    odd = others[0]
    raise DataError(
        f"{folder}: the planes differ in their {name}: {shown(value(odd[0]))} in {_listed(odd)}, but "
        f"{shown(value(most[0]))} in {_listed(most)}. Fix: keep only the files of one volume, without localizers."
    )


def _step(folder: Path, ordered: Sequence[Plane], normal: np.ndarray) -> float:
    """Returns the distance in mm between neighboring planes.

    Raises:
      DataError: the distances vary, or there is one plane without a thickness.
    """
    if len(ordered) == 1:
        if ordered[0].thickness is None:
            raise DataError(
                f"{ordered[0].path}: is the only plane of {folder} and has no SliceThickness, so the voxel size is not "
                "known. Fix: add the other files of the series."
            )
        return ordered[0].thickness
    heights = np.array([plane.position @ normal for plane in ordered])
    steps = np.diff(heights)
    usual = float(np.median(steps))
    pairs = list(zip(itertools.pairwise(ordered), steps.tolist(), strict=True))
    # With two files per plane, half of the steps are 0, so their median may be 0.
    least = _SAME_PLACE * (usual or float(steps.max()))
    same = [pair for pair, step in pairs if step <= least]
    if same:
        below, above = same[0]
        more = f", as do {len(same) - 1} other pairs" if len(same) > 1 else ""
        raise DataError(
            f"{folder}: {below.path.name} and {above.path.name} lie in the same place, {above.height:g} mm along the "
            f"normal of the planes{more}. Fix: keep only one file for each plane, for example one phase of contrast."
        )
    gaps = [(pair, step) for pair, step in pairs if step >= _MISSING * usual]
    if gaps:
        (below, above), step = gaps[0]
        missing = sum(round(step / usual) - 1 for _, step in gaps)
        raise DataError(
            f"{folder}: {missing} plane(s) are missing: the planes are {usual:g} mm apart, but {below.path.name} and "
            f"{above.path.name} {step:g} mm. Fix: add the missing files of the series."
        )
    mean = float(heights[-1] - heights[0]) / (len(ordered) - 1)
    drift = heights - np.linspace(heights[0], heights[-1], len(ordered))
    if np.abs(steps - mean).max() > _SAME_PLACE * mean or np.abs(drift).max() > _SHIFTED * mean:
        least, most = (pairs[index] for index in (int(steps.argmin()), int(steps.argmax())))
        raise DataError(
            f"{folder}: the distances between planes vary from {least[1]:g} mm ({_pair(least[0])}) to {most[1]:g} mm "
            f"({_pair(most[0])}). Fix: resample the series to a constant distance, for example with dcm2niix."
        )
    return mean


def _check_no_shift(folder: Path, ordered: Sequence[Plane], normal: np.ndarray) -> None:
    """Raises DataError if the planes do not lie on top of each other, for instance because the gantry was tilted."""
    if len(ordered) == 1:
        return
    first, last = ordered[0], ordered[-1]
    moved = np.array([plane.position - first.position for plane in ordered])
    aside = moved - np.outer(moved @ normal, normal)
    shifts = np.linalg.norm(aside, axis=1)
    if shifts.max() <= _SHIFTED * min(first.pixel_size):
        return
    # A tilt shifts every plane by the same distance from the plane below.
    even = np.linalg.norm(aside - np.outer(np.linspace(0, 1, len(ordered)), aside[-1]), axis=1)
    if even.max() <= _SHIFTED * min(first.pixel_size):
        angle = np.degrees(np.arctan2(shifts[-1], moved[-1] @ normal))
        stated = f"; GantryDetectorTilt is {first.tilt:g} degrees" if abs(first.tilt) > _TILTED_DEGREES else ""
        raise DataError(
            f"{folder}: the gantry was tilted by {angle:.1f} degrees{stated}: from {first.path.name} to "
            f"{last.path.name}, the planes shift sideways by {shifts[-1]:.1f} mm. Fix: resample the series to "
            "perpendicular planes, for example with dcm2niix, and give the NIfTI file."
        )
    odd = int(np.argmax(np.linalg.norm(np.diff(aside, axis=0), axis=1)))
    raise DataError(
        f"{folder}: the planes do not lie on top of each other: {ordered[odd + 1].path.name} is shifted sideways by "
        f"{np.linalg.norm(aside[odd + 1] - aside[odd]):.1f} mm from {ordered[odd].path.name}. "
        "Fix: keep only the files of one volume."
    )


def _directions(plane: Plane) -> np.ndarray:
    return np.concatenate([plane.along_row, plane.along_column])


def _close(absolute: float, relative: float) -> Callable[[object, object], bool]:
    return lambda a, b: bool(np.allclose(a, b, atol=absolute, rtol=relative))


def _shown_size(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]} pixels"


def _shown_mm(sizes: tuple[float, float]) -> str:
    return f"{sizes[0]:g} x {sizes[1]:g} mm"


def _shown_directions(directions: np.ndarray) -> str:
    return f"[{', '.join(f'{number:.4g}' for number in directions)}]"


def _listed(planes: Sequence[Plane]) -> str:
    names = ", ".join(plane.path.name for plane in planes[:_SHOWN])
    return names if len(planes) <= _SHOWN else f"{names} and {len(planes) - _SHOWN} other file(s)"


def _pair(pair: tuple[Plane, Plane]) -> str:
    return f"{pair[0].path.name}, {pair[1].path.name}"
