"""The geometry of OME-Zarr images, and the attributes of label images in the same position."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from mtf_imaging.data.formats.ome_zarr.multiscale import ALONG_RAS, OURS, SPACE, Multiscale
from mtf_imaging.data.images.geometry import MadeGeometry
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.provenance.runs import FIELD as PROVENANCE

_VERSION = "0.5"


@dataclasses.dataclass(frozen=True)
class Frame:
    """The position of an array as OME-Zarr states it.

    Attributes:
      axes: the metadata objects of the axes in space, in the order of the array.
      scale: distance between voxels along these axes, in their units.
      translation: position of the first voxel along these axes, in their units.
      affine: `[4, 4]`, voxel `[x, y, z]` -> mm in RAS+; None if only scale and translation are known.
      has_size: whether the scale is stated.
    """

    axes: tuple[Mapping[str, Any], ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    affine: np.ndarray | None
    has_size: bool = True

    @property
    def order(self) -> tuple[int, ...]:
        """For each axis of the array, its position among x, y, z."""
        return tuple(SPACE.index(axis["name"]) for axis in self.axes)

    def label_attributes(self, name: str, levels: int = 1, provenance: Provenance | None = None) -> dict[str, Any]:
        """Returns the group attributes of a label image.

        Args:
          name: name of the image.
          levels: number of resolutions, each half of the one before; only one if the voxel size is not stated.
          provenance: the provenance to store; None for none.
        """
        datasets: list[dict[str, Any]] = [{"path": str(level)} for level in range(levels if self.has_size else 1)]
        for level, dataset in enumerate(datasets if self.has_size else ()):
            dataset["coordinateTransformations"] = [
                {"type": "scale", "scale": [mm * 2**level for mm in self.scale]},
                {"type": "translation", "translation": [*self.translation]},
            ]
        multiscale = {"name": name, "axes": [dict(axis) for axis in self.axes], "datasets": datasets}
        ours: dict[str, Any] = {} if self.affine is None else {"affine": np.asarray(self.affine).tolist()}
        if provenance is not None:
            ours[PROVENANCE] = provenance.image_fields
        attributes = {"ome": {"version": _VERSION, "multiscales": [multiscale], "image-label": {}}}
        return attributes | ({OURS: ours} if ours else {})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZarrGeometry(MadeGeometry):
    """Geometry of an OME-Zarr image, whose stored axes are x, y, z.

    Attributes:
      frame: the position that the image states; its segmentation states the same.
    """

    frame: Frame


def zarr_geometry(multiscale: Multiscale, shape: tuple[int, int, int]) -> ZarrGeometry:
    """Returns the geometry of an image.

    Args:
      multiscale: the metadata of the image.
      shape: number of voxels along x, y, z.
    """
    numbers = [number for number, axis in enumerate(multiscale.axes) if axis.kind == "space"]
    frame = Frame(
        axes=tuple(multiscale.entries[number] for number in numbers),
        scale=tuple(multiscale.scale[number] for number in numbers),
        translation=tuple(multiscale.translation[number] for number in numbers),
        affine=multiscale.ours,
        has_size=multiscale.has_size,
    )
    doubt = None if multiscale.has_directions else "its metadata does not state the anatomical orientation of the axes"
    has_size = multiscale.has_size or multiscale.ours is not None
    return ZarrGeometry.of(shape, multiscale.affine, doubt=doubt, has_size=has_size, frame=frame)


def canonical_frame(affine: np.ndarray) -> Frame:
    """Returns the frame of a canonical array, stored in the axis order z, y, x that OME-Zarr recommends.

    Args:
      affine: `[4, 4]`, canonical voxel index -> mm in RAS+. OME-Zarr 0.5 cannot state the rotation of an oblique image,
        so its scale and translation lack it; the whole affine is in our attributes.
    """
    orientation = [{"type": "anatomical", "value": value} for value in ALONG_RAS]
    axes = [
        {"name": name, "type": "space", "unit": "millimeter", "orientation": direction}
        for name, direction in zip(SPACE, orientation, strict=True)
    ]
    scale = np.linalg.norm(affine[:3, :3], axis=0)
    return Frame(tuple(axes[::-1]), tuple(scale[::-1].tolist()), tuple(affine[:3, 3][::-1].tolist()), affine)
