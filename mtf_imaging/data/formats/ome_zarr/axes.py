"""The axes of an OME-Zarr image: their names, units and directions in the patient."""

import dataclasses
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtf_imaging.errors import DataError

SPACE = ("x", "y", "z")
# Millimeters per unit. OME-Zarr uses UDUNITS-2 names; some programs write the symbols.
_UNITS = {
    "nanometer": 1e-6,
    "nm": 1e-6,
    "micrometer": 1e-3,
    "micron": 1e-3,
    "um": 1e-3,
    "µm": 1e-3,
    "millimeter": 1.0,
    "mm": 1.0,
    "centimeter": 10.0,
    "cm": 10.0,
    "decimeter": 100.0,
    "meter": 1e3,
    "m": 1e3,
    "inch": 25.4,
}
# {direction in which an axis increases: (index of the axis in RAS+, sign)}, as in RFC-4 of OME-Zarr
_DIRECTIONS = {
    "left-to-right": (0, 1),
    "right-to-left": (0, -1),
    "posterior-to-anterior": (1, 1),
    "anterior-to-posterior": (1, -1),
    "inferior-to-superior": (2, 1),
    "superior-to-inferior": (2, -1),
}
ALONG_RAS = ("left-to-right", "posterior-to-anterior", "inferior-to-superior")  # x, y, z of canonical arrays


@dataclasses.dataclass(frozen=True)
class Axis:
    """One axis of an array.

    Attributes:
      name: its name, for example "z".
      kind: "space", "channel" or "time".
      mm: millimeters per unit of the axis; None if the unit is not stated, or the axis is not in space.
      direction: (index of the axis in RAS+, sign) in which it increases; None if it is not stated.
    """

    name: str
    kind: str
    mm: float | None = None
    direction: tuple[int, int] | None = None


def parse_axes(path: Path, entries: Any, version: str) -> tuple[Axis, ...]:
    """Parses the axes of a multiscale image, in the order of the array.

    Args:
      path: the folder of the image, for messages.
      entries: the list `axes` of its metadata.
      version: the version of OME-Zarr, for messages.

    Raises:
      DataError: the list is malformed; an axis has an unknown type, unit or direction; or there are axes in space other
          than x, y and z.
    """
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) and "name" in entry for entry in entries):
        raise DataError(
            f"{path}: its axes are {reprlib.repr(entries)}, but OME-Zarr {version} needs a list of objects with a name "
            "and a type. Fix: write the image again with a current program."
        )
    axes = tuple(_parse_axis(path, entry) for entry in entries)
    names = sorted(axis.name for axis in axes if axis.kind == "space")
    if names != sorted(SPACE):
        raise DataError(
            f"{path}: its axes in space are {', '.join(names) or 'missing'}, but volumes have x, y and z. "
            "Fix: store a volume with these axes."
        )
    for kind in ("channel", "time"):
        if sum(axis.kind == kind for axis in axes) > 1:
            raise DataError(f"{path}: has several axes of the type {kind}. Fix: store at most one.")
    directions = [axis.direction for axis in axes if axis.direction is not None]
    if directions and sorted(number for number, _ in directions) != [0, 1, 2]:
        shown = ", ".join(f"{entry['name']}: {_stated_direction(entry)}" for entry in entries if entry["name"] in SPACE)
        raise DataError(
            f"{path}: the orientations of x, y and z are not one for each direction in the patient ({shown}). "
            "Fix: state all three, for example left-to-right, posterior-to-anterior and inferior-to-superior."
        )
    return axes


def _parse_axis(path: Path, entry: Mapping[str, Any]) -> Axis:
    name = str(entry["name"])
    # The type is optional; without it, the name determines it.
    kind = entry.get("type") or {"c": "channel", "t": "time"}.get(name, "space")
    if kind not in ("space", "channel", "time"):
        raise DataError(
            f"{path}: axis {name} has the type {reprlib.repr(kind)}, not space, channel or time. "
            "Fix: store a volume without it."
        )
    if kind != "space":
        return Axis(name, kind)
    unit, stated = entry.get("unit"), _stated_direction(entry)
    if unit is not None and unit not in tuple(_UNITS):  # a tuple, because JSON values may be unhashable
        raise DataError(
            f"{path}: axis {name} has the unit {reprlib.repr(unit)}, which is not a known length. Fix: state one of "
            f"{', '.join(unit for unit in _UNITS if len(unit) > 2)}."
        )
    if stated is not None and stated not in tuple(_DIRECTIONS):
        raise DataError(
            f"{path}: axis {name} has the orientation {reprlib.repr(stated)}, which is not a direction in the patient. "
            f"Fix: state one of {', '.join(_DIRECTIONS)}."
        )
    return Axis(name, kind, None if unit is None else _UNITS[unit], None if stated is None else _DIRECTIONS[stated])


def _stated_direction(entry: Mapping[str, Any]) -> str | None:
    orientation = entry.get("orientation")
    if isinstance(orientation, Mapping):
        return orientation.get("value")
    return orientation
