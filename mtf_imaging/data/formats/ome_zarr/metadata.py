"""Parses the metadata of OME-Zarr images."""

import dataclasses
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
    """The metadata of an image, for its full resolution.

    Attributes:
      array: path of the array of full resolution in the folder.
      axes: the axes of the array, in its order.
      scale: distance between voxels along each axis, in units of the axis.
      translation: position of the first voxel along each axis, in units of the axis.
      ours: the affine `[4, 4]` of our attributes, voxel `[x, y, z]` -> mm in RAS+; None if there is none.
      entries: the objects of the axes, as stated; labels of this image state the same ones.
      is_label: whether the image consists of labels.
    """

    array: str
    axes: tuple[Axis, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    ours: np.ndarray | None
    entries: tuple[Mapping[str, Any], ...]
    is_label: bool

    def position(self, name: str) -> int:
        """Returns the position in the array of an axis in space."""
        return next(number for number, axis in enumerate(self.axes) if axis.name == name)

    def number_of(self, kind: str) -> int | None:
        """Returns the position in the array of the axis of a type, such as "channel"; None if there is none."""
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
        """`[4, 4]` float64, voxel `[x, y, z]` -> mm in RAS+; missing units are mm, and missing directions RAS+."""
        if self.ours is not None:
            return self.ours
        affine = np.zeros((4, 4))
        affine[3, 3] = 1
        for column, name in enumerate(SPACE):
            number = self.position(name)
            axis = self.axes[number]
            row, sign = axis.direction or (column, 1)
            mm = sign * (axis.mm or 1.0)
            affine[row, column] = mm * self.scale[number]
            affine[row, 3] = mm * self.translation[number]
        return affine


def parse_multiscale(path: Path, attributes: Mapping[str, Any]) -> Multiscale:
    """Parses the attributes of the group of an image.

    Args:
      path: the folder of the image, for messages.
      attributes: the attributes of its group.

    Raises:
      DataError: there is no image, its version is not supported, or its metadata is malformed.
    """
    ome = attributes.get("ome", attributes)
    scales = ome.get("multiscales") if isinstance(ome, Mapping) else None
    if not isinstance(scales, list) or not scales or not isinstance(scales[0], Mapping):
        where = next((name for name in ("bioformats2raw.layout", "plate", "well") if name in (ome or ())), None)
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
    scale, translation = np.ones(len(axes)), np.zeros(len(axes))
    steps = [*_steps(path, datasets[0]), *_steps(path, first)]
    for kind, numbers in steps:
        if len(numbers) != len(axes) or not np.isfinite(numbers).all() or (kind == "scale" and not np.all(numbers)):
            raise DataError(
                f"{path}: its {kind} is {numbers.tolist()}, but needs {len(axes)} finite numbers, one for each "
                "axis; sizes cannot be 0. Fix: repair the metadata."
            )
        if kind == "scale":
            scale, translation = scale * numbers, translation * numbers
        else:
            translation = translation + numbers
    found = Multiscale(
        array=str(datasets[0]["path"]),
        axes=axes,
        scale=tuple(map(float, scale)),
        translation=tuple(map(float, translation)),
        ours=None,
        entries=tuple(entries),
        is_label="image-label" in ome,
    )
    return dataclasses.replace(found, ours=_our_affine(path, attributes, found))


def _steps(path: Path, holder: Mapping[str, Any]) -> list[tuple[str, np.ndarray]]:
    """Returns the coordinate transformations of an object, as (type, numbers)."""
    steps = []
    for entry in holder.get("coordinateTransformations") or ():
        kind = entry.get("type") if isinstance(entry, Mapping) else None
        if kind == "identity":
            continue
        if kind not in ("scale", "translation") or kind not in entry:
            raise DataError(
                f"{path}: has the coordinate transformation {entry!r}, but only scale and translation with their "
                "numbers are supported. Fix: write the image with these."
            )
        numbers = entry[kind]
        is_list = isinstance(numbers, Sequence) and all(isinstance(number, int | float) for number in numbers)
        steps.append((kind, np.array(numbers if is_list else (), np.float64)))
    return steps


def _our_affine(path: Path, attributes: Mapping[str, Any], found: Multiscale) -> np.ndarray | None:
    """Returns the affine of our attributes, or None.

    Raises:
      DataError: its voxel sizes differ from the scale, for instance because another program has resampled the array.
    """
    ours = attributes.get(OURS)
    if not isinstance(ours, Mapping) or "affine" not in ours:
        return None
    affine = np.array(ours["affine"], np.float64)
    stated = [abs(found.scale[found.position(name)] * (found.axes[found.position(name)].mm or 1)) for name in SPACE]
    is_affine = affine.shape == (4, 4) and np.isfinite(affine).all() and np.linalg.det(affine[:3, :3]) != 0
    sizes = np.linalg.norm(affine[:3, :3], axis=0) if is_affine else np.zeros(3)
    if not np.allclose(sizes, stated, rtol=_SAME):
        raise DataError(
            f"{path}: the affine in '{OURS}' has voxels of {_shown(sizes)} mm, but the scale states {_shown(stated)} "
            f"mm. Fix: delete '{OURS}' from the attributes if another program has changed the array."
        )
    return affine


def _shown(sizes: Sequence[float]) -> str:
    return " x ".join(f"{mm:g}" for mm in sizes)
