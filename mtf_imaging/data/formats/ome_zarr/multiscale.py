"""Parses the metadata of OME-Zarr images: the axes, and the position of the voxels."""

import dataclasses
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtf_imaging.files.reading import Fault

OURS = "mtf_imaging"  # the name of our attributes, next to "ome"
SPACE = ("x", "y", "z")
_VERSIONS = ("0.4", "0.5")
_SAME = 1e-3  # relative, for voxel sizes
# Millimeters per unit. OME-Zarr uses UDUNITS-2 names; some programs write the symbols.
_UNITS = {
    **{"nanometer": 1e-6, "micrometer": 1e-3, "micron": 1e-3, "millimeter": 1.0, "centimeter": 10.0},
    **{"decimeter": 100.0, "meter": 1e3, "inch": 25.4},
    **{"nm": 1e-6, "um": 1e-3, "µm": 1e-3, "mm": 1.0, "cm": 10.0, "m": 1e3},
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


@dataclasses.dataclass(frozen=True)
class Multiscale:
    """The metadata of an image at full resolution.

    Attributes:
      array: path of the full-resolution array in the folder.
      coarser: paths of the arrays of the other levels, from fine to coarse.
      axes: the axes, in the order of the array.
      scale: distance between voxels along each axis, in units of the axis.
      translation: position of the first voxel along each axis, in units of the axis.
      ours: the affine `[4, 4]` in our attributes, voxel `[x, y, z]` -> mm in RAS+; None if there is none.
      entries: the metadata objects of the axes; labels of this image state the same objects.
      is_label: whether the image consists of labels.
      has_size: whether the voxel size is stated.
    """

    array: str
    coarser: tuple[str, ...]
    axes: tuple[Axis, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    ours: np.ndarray | None
    entries: tuple[Mapping[str, Any], ...]
    is_label: bool
    has_size: bool = True

    @property
    def space(self) -> tuple[int, int, int]:
        """The array positions of x, y and z."""
        names = [axis.name if axis.kind == "space" else None for axis in self.axes]
        x, y, z = map(names.index, SPACE)
        return x, y, z

    def number_of(self, kind: str) -> int | None:
        """Returns the array position of the axis of a type, such as "channel"; None if there is none."""
        return next((number for number, axis in enumerate(self.axes) if axis.kind == kind), None)

    @property
    def has_units(self) -> bool:
        """Whether all axes in space state their unit."""
        return all(self.axes[number].mm is not None for number in self.space)

    @property
    def has_directions(self) -> bool:
        """Whether the directions of x, y and z in the patient are stated."""
        return self.ours is not None or all(self.axes[number].direction for number in self.space)

    @property
    def affine(self) -> np.ndarray:
        """`[4, 4]` float64, voxel `[x, y, z]` -> mm in RAS+; missing units are mm, and missing directions RAS+.

        Without a stated voxel size, it is 1 mm.
        """
        if self.ours is not None:
            return self.ours
        affine = np.zeros((4, 4))
        affine[3, 3] = 1
        for column, number in enumerate(self.space):
            axis = self.axes[number]
            row, sign = axis.direction or (column, 1)
            mm = sign * (axis.mm or 1.0) if self.has_size else sign
            affine[row, column] = mm * self.scale[number]
            affine[row, 3] = mm * self.translation[number]
        return affine


def parse_multiscale(attributes: Mapping[str, Any]) -> Multiscale:
    """Parses the group attributes of an image.

    Raises:
      Fault: there is no image, its version is not supported, or its metadata contradict each other.
      KeyError, TypeError, ValueError, AttributeError: the metadata are malformed.
    """
    ome = attributes.get("ome", attributes)
    if not isinstance(ome, Mapping) or not ome.get("multiscales"):
        is_collection = isinstance(ome, Mapping) and {*ome} & {"bioformats2raw.layout", "plate", "well"}
        what = f"; it is a collection of images, {sorted(is_collection)}" if is_collection else ""
        fix = "give the folder of one image; for an image in a collection, a link to it whose name ends in .ome.zarr"
        raise Fault(f"has no 'multiscales' in its attributes, so it is not an OME-Zarr image{what}", fix)
    first = ome["multiscales"][0]
    version = str(ome.get("version") or first.get("version") or "0.4")
    if version not in _VERSIONS:
        what = f"has version {version} of OME-Zarr, but only {' and '.join(_VERSIONS)} are supported"
        raise Fault(what, "convert it to one of these versions")
    axes, dataset = tuple(map(_parse_axis, first["axes"])), first["datasets"][0]
    _check_axes(axes)
    steps = [*_steps(dataset), *_steps(first)]
    scale, translation = _composed(steps, axes)
    for level in first["datasets"][1:]:
        finer, _ = _composed([*_steps(level), *_steps(first)], axes)
        if steps and np.prod(np.abs(finer)) < np.prod(np.abs(scale)) * (1 - _SAME):
            two = (dataset, scale), (level, finer)
            shown = " and ".join(f"'{each['path']}' with the scale {[*own]}" for each, own in two)
            fix = "list its levels from the finest to the coarsest"
            raise Fault(f"its first level is not the finest: {shown}", fix)
    found = Multiscale(
        array=str(dataset["path"]),
        coarser=tuple(str(level["path"]) for level in first["datasets"][1:]),
        axes=axes,
        scale=scale,
        translation=translation,
        ours=None,
        entries=tuple(first["axes"]),
        is_label="image-label" in ome,
        has_size=any(kind == "scale" for kind, _ in steps),
    )
    ours = attributes.get(OURS)
    if isinstance(ours, Mapping) and "affine" in ours:
        return dataclasses.replace(found, ours=_our_affine(ours["affine"], found))
    # A negative scale mirrors an axis. With stated directions, the position of every voxel is certain. Otherwise, the
    # directions are inferred from the voxels, which cannot reveal a mirrored axis.
    if found.has_directions and not found.has_size:
        what = "its metadata states the orientation of the axes, but not the voxel size"
        raise Fault(what, "add the coordinate transformation scale")
    if not found.has_directions and min(scale[number] for number in found.space) < 0:
        what = f"its scale {list(scale)} mirrors axes, but its metadata does not state the orientation of the axes"
        raise Fault(what, "state the orientation of x, y and z, or store the array with positive sizes")
    return found


def _parse_axis(entry: Mapping[str, Any]) -> Axis:
    name, orientation = str(entry["name"]), entry.get("orientation")
    # The type is optional; without it, the name determines it.
    kind = entry.get("type") or {"c": "channel", "t": "time"}.get(name, "space")
    if kind in ("channel", "time"):
        return Axis(name, kind)
    unit = entry.get("unit")
    direction = orientation.get("value") if isinstance(orientation, Mapping) else orientation
    # Tuples, because JSON values may be unhashable.
    if kind != "space" or unit not in (None, *_UNITS) or direction not in (None, *_DIRECTIONS):
        stated = f"the unit {reprlib.repr(unit)} and the orientation {reprlib.repr(direction)}"
        what = f"axis {name} has the type {reprlib.repr(kind)}, {stated}, of which one is not known"
        known = f"one of the units {', '.join([*_UNITS][:8])}; and one of the orientations {', '.join(_DIRECTIONS)}"
        raise Fault(what, f"state the type space, channel or time; {known}")
    return Axis(name, kind, _UNITS.get(unit), _DIRECTIONS.get(direction))


def _check_axes(axes: Sequence[Axis]) -> None:
    kinds = [axis.kind for axis in axes]
    names = sorted(axis.name for axis in axes if axis.kind == "space")
    if names != [*SPACE] or max(kinds.count("channel"), kinds.count("time")) > 1:
        what = f"its axes are {', '.join(f'{axis.name} ({axis.kind})' for axis in axes)}, but a volume has x, y and z"
        raise Fault(what, "store a volume with these axes, and with at most one axis of channels and one of time")
    directions = [axis.direction[0] if axis.direction else None for axis in axes if axis.kind == "space"]
    if any(axis is not None for axis in directions) and {*directions} != {0, 1, 2}:
        what = "the orientations of x, y and z are not one for each direction in the patient"
        raise Fault(what, f"state all three, for example {', '.join(ALONG_RAS)}")


def _steps(holder: Mapping[str, Any]) -> list[tuple[str, np.ndarray]]:
    """Returns the coordinate transformations of an object, as (type, numbers)."""
    entries = [each for each in holder.get("coordinateTransformations") or () if each["type"] != "identity"]
    unknown = [each for each in entries if each["type"] not in ("scale", "translation")]
    if unknown:
        what = f"has the coordinate transformation {reprlib.repr(unknown[0])}, but only scale and translation are known"
        raise Fault(what, "write the image with these")
    return [(each["type"], _numbers(each[each["type"]])) for each in entries]


def _composed(
    steps: Sequence[tuple[str, np.ndarray]], axes: Sequence[Axis]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the scale and the translation of coordinate transformations that are applied in turn."""
    scale, translation = np.ones(len(axes)), np.zeros(len(axes))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for kind, numbers in steps:
            if numbers.shape != scale.shape:
                raise Fault(f"its {kind} is {reprlib.repr(numbers.tolist())}, but there are {len(axes)} axes")
            scale, translation = (
                (scale * numbers, translation * numbers) if kind == "scale" else (scale, translation + numbers)
            )
        lengths = scale * [axis.mm or 1.0 for axis in axes]
    if not (np.isfinite(lengths) & (lengths != 0) & np.isfinite(translation)).all():
        stated = f"scale {scale.tolist()} and the translation {translation.tolist()}"
        what = f"its coordinate transformations amount to the {stated}, which are not lengths"
        raise Fault(what, "repair the metadata")
    return tuple(scale.tolist()), tuple(translation.tolist())


def _our_affine(rows: object, found: Multiscale) -> np.ndarray:
    """Returns the affine in our attributes.

    Raises:
      Fault: its voxel sizes differ from the scale, for instance because another program has resampled the array.
    """
    affine = np.array([_numbers(row) for row in rows]).reshape(4, 4)
    sizes = np.linalg.norm(affine[:3, :3], axis=0)
    stated = [abs(found.scale[number] * (found.axes[number].mm or 1)) for number in found.space]
    is_affine = np.isfinite(affine).all() and np.linalg.det(affine[:3, :3]) != 0
    if not is_affine or (found.has_size and not np.allclose(sizes, stated, rtol=_SAME)):
        own, scale = (" x ".join(f"{mm:g}" for mm in each) for each in (sizes, stated))
        fix = f"delete '{OURS}' from the attributes if another program has changed the array"
        raise Fault(f"the affine in '{OURS}' has voxels of {own} mm, but the scale states {scale} mm", fix)
    return affine


def _numbers(value: object) -> np.ndarray:
    """Returns a list of numbers as an array, float64."""
    if not all(type(number) in (int, float) for number in value):
        raise TypeError(f"{reprlib.repr(value)} is not a list of numbers")
    return np.array(value, np.float64)
