"""Parses the metadata of OME-Zarr images."""

import dataclasses
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.formats.ome_zarr.axes import SPACE, Axis, parse_axes
from mtf_imaging.errors import DataError

OURS = "mtf_imaging"  # the name of our attributes, next to "ome"
_VERSIONS = ("0.4", "0.5")
_SAME = 1e-3  # relative, for voxel sizes


@dataclasses.dataclass(frozen=True)
class Multiscale:
    """The metadata of an image at full resolution.

    Attributes:
      array: path of the full-resolution array in the folder.
      axes: the axes, in the order of the array.
      scale: distance between voxels along each axis, in units of the axis.
      translation: position of the first voxel along each axis, in units of the axis.
      ours: the affine `[4, 4]` in our attributes, voxel `[x, y, z]` -> mm in RAS+; None if there is none.
      entries: the metadata objects of the axes; labels of this image state the same objects.
      is_label: whether the image consists of labels.
      has_size: whether the voxel size is stated.
    """

    array: str
    axes: tuple[Axis, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    ours: np.ndarray | None
    entries: tuple[Mapping[str, Any], ...]
    is_label: bool
    has_size: bool = True

    def position(self, name: str) -> int:
        """Returns the array position of an axis in space."""
        return next(number for number, axis in enumerate(self.axes) if (axis.name, axis.kind) == (name, "space"))

    def number_of(self, kind: str) -> int | None:
        """Returns the array position of the axis of a type, such as "channel"; None if there is none."""
        return next((number for number, axis in enumerate(self.axes) if axis.kind == kind), None)

    @property
    def has_units(self) -> bool:
        """Whether all axes in space state their unit."""
        return all(axis.mm is not None for axis in self.axes if axis.kind == "space")

    @property
    def has_directions(self) -> bool:
        """Whether the directions of x, y and z in the patient are stated."""
        return self.ours is not None or all(axis.direction for axis in self.axes if axis.kind == "space")

    @property
    def affine(self) -> np.ndarray:
        """`[4, 4]` float64, voxel `[x, y, z]` -> mm in RAS+; missing units are mm, and missing directions RAS+.

        Without a stated voxel size, it is 1 mm.
        """
        if self.ours is not None:
            return self.ours
        affine = np.zeros((4, 4))
        affine[3, 3] = 1
        for column, name in enumerate(SPACE):
            number = self.position(name)
            axis = self.axes[number]
            row, sign = axis.direction or (column, 1)
            mm = sign * (axis.mm or 1.0) if self.has_size else sign
            affine[row, column] = mm * self.scale[number]
            affine[row, 3] = mm * self.translation[number]
        return affine


def parse_multiscale(path: Path, attributes: Mapping[str, Any]) -> Multiscale:
    """Parses the group attributes of an image.

    Args:
      path: the folder of the image, for messages.
      attributes: the attributes of its group.

    Raises:
      DataError: there is no image, its version is not supported, or its metadata is malformed.
    """
    ome = attributes.get("ome", attributes)
    if not isinstance(ome, Mapping):
        ome = {}
    scales = ome.get("multiscales")
    if not isinstance(scales, list) or not scales or not isinstance(scales[0], Mapping):
        where = next((name for name in ("bioformats2raw.layout", "plate", "well") if name in ome), None)
        what = f" (it is a collection of images, '{where}')" if where else ""
        link = f", such as {path / '0'}, as a link whose name ends in .ome.zarr" if where else ""
        raise DataError(
            f"{path}: has no 'multiscales' in its attributes, so it is not an OME-Zarr image{what}. "
            f"Fix: give the folder of one image{link}."
        )
    first = scales[0]
    version = str(ome.get("version") or first.get("version") or "0.4")
    if version not in _VERSIONS:
        raise DataError(
            f"{path}: has version {version} of OME-Zarr, but only {' and '.join(_VERSIONS)} are supported. "
            "Fix: convert it to one of these versions."
        )
    entries = first.get("axes")
    axes = parse_axes(path, entries, version)
    datasets = first.get("datasets")
    if (
        not isinstance(datasets, list)
        or not datasets
        or not isinstance(datasets[0], Mapping)
        or "path" not in datasets[0]
    ):
        raise DataError(f"{path}: its metadata names no array ('datasets'). Fix: write the image again.")
    steps = [*_steps(path, datasets[0]), *_steps(path, first)]
    scale, translation = _composed(path, steps, axes)
    found = Multiscale(
        array=str(datasets[0]["path"]),
        axes=axes,
        scale=tuple(map(float, scale)),
        translation=tuple(map(float, translation)),
        ours=None,
        entries=tuple(entries),
        is_label="image-label" in ome,
        has_size=any(kind == "scale" for kind, _ in steps),
    )
    found = dataclasses.replace(found, ours=_our_affine(path, attributes, found))
    _check_directions(path, found)
    return found


def _composed(
    path: Path, steps: Sequence[tuple[str, np.ndarray]], axes: Sequence[Axis]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the scale and the translation of coordinate transformations that are applied in turn."""
    scale, translation = np.ones(len(axes)), np.zeros(len(axes))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for kind, numbers in steps:
            if len(numbers) != len(axes) or not np.isfinite(numbers).all() or (kind == "scale" and not np.all(numbers)):
                raise DataError(
                    f"{path}: its {kind} is {reprlib.repr(numbers.tolist())}, but needs {len(axes)} finite numbers, "
                    "one for each axis; sizes cannot be 0. Fix: repair the metadata."
                )
            if kind == "scale":
                scale, translation = scale * numbers, translation * numbers
            else:
                translation = translation + numbers
        lengths = scale * [axis.mm or 1.0 for axis in axes]
    if not (np.isfinite(lengths) & (lengths != 0) & np.isfinite(translation)).all():
        raise DataError(
            f"{path}: its coordinate transformations amount to the scale {scale.tolist()} and the translation "
            f"{translation.tolist()}, which are not lengths. Fix: repair the metadata."
        )
    return scale, translation


def _check_directions(path: Path, found: Multiscale) -> None:
    """Checks that the voxel size and the directions do not contradict each other.

    A negative scale mirrors an axis. With stated directions, the position of every voxel is certain. Otherwise, the
    directions are inferred from the voxels, which cannot reveal a mirrored axis.
    """
    if found.ours is not None:
        return
    if found.has_directions and not found.has_size:
        raise DataError(
            f"{path}: its metadata states the orientation of the axes, but not the voxel size. "
            "Fix: add the coordinate transformation scale."
        )
    mirrored = [axis.name for axis, mm in zip(found.axes, found.scale, strict=True) if axis.kind == "space" and mm < 0]
    if mirrored and not found.has_directions:
        raise DataError(
            f"{path}: its scale is {list(found.scale)}, negative along {', '.join(mirrored)}, so these axes are "
            "mirrored, but its metadata does not state the orientation of the axes. "
            "Fix: state the orientation of x, y and z, or store the array with positive sizes."
        )


def _steps(path: Path, holder: Mapping[str, Any]) -> list[tuple[str, np.ndarray]]:
    """Returns the coordinate transformations of an object, as (type, numbers)."""
    steps = []
    entries = holder.get("coordinateTransformations") or ()
    for entry in entries if isinstance(entries, Sequence) else [entries]:
        kind = entry.get("type") if isinstance(entry, Mapping) else None
        if kind == "identity":
            continue
        if kind not in ("scale", "translation") or kind not in entry:
            raise DataError(
                f"{path}: has the coordinate transformation {reprlib.repr(entry)}, but only scale and translation with "
                "their numbers are supported. Fix: write the image with these."
            )
        steps.append((kind, _numbers(entry[kind])))
    return steps


def _our_affine(path: Path, attributes: Mapping[str, Any], found: Multiscale) -> np.ndarray | None:
    """Returns the affine in our attributes, or None.

    Raises:
      DataError: its voxel sizes differ from the scale, for instance because another program has resampled the array.
    """
    ours = attributes.get(OURS)
    if not isinstance(ours, Mapping) or "affine" not in ours:
        return None
    rows = ours["affine"]
    affine = np.array([_numbers(row) for row in rows] if _is_square(rows) else (), np.float64)
    stated = [abs(found.scale[found.position(name)] * (found.axes[found.position(name)].mm or 1)) for name in SPACE]
    is_affine = affine.shape == (4, 4) and np.isfinite(affine).all() and np.linalg.det(affine[:3, :3]) != 0
    sizes = np.linalg.norm(affine[:3, :3], axis=0) if is_affine else np.zeros(3)
    if not is_affine or (found.has_size and not np.allclose(sizes, stated, rtol=_SAME)):
        raise DataError(
            f"{path}: the affine in '{OURS}' has voxels of {_shown(sizes)} mm, but the scale states {_shown(stated)} "
            f"mm. Fix: delete '{OURS}' from the attributes if another program has changed the array."
        )
    return affine


def _numbers(value: Any) -> np.ndarray:
    """Returns a list of numbers as an array; empty if it is another value."""
    is_list = isinstance(value, list) and all(type(number) in (int, float) for number in value)
    try:
        return np.array(value if is_list else (), np.float64)
    except OverflowError:  # for an integer with hundreds of digits
        return np.empty(0)


def _is_square(rows: Any) -> bool:
    return isinstance(rows, list) and len(rows) == 4 and all(len(_numbers(row)) == 4 for row in rows)


def _shown(sizes: Sequence[float]) -> str:
    return " x ".join(f"{mm:g}" for mm in sizes)
