"""Volumes that are computed from other volumes when they are read: masks of labels, and reoriented volumes."""

import functools

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.evaluation.volume_scores.overlap import scored_labels
from mtf_imaging.evaluation.volume_scores.surface import Surface, surface_voxels
from mtf_imaging.evaluation.volume_scores.voxels import Region, Voxels, VoxelView, slabs, whole


def mask_view(labels: Voxels, description: Description, name: str) -> VoxelView:
    """Returns a mask as bool voxels of the same shape as the labels.

    Args:
      labels: the labels.
      description: the meaning of the labels.
      name: the mask name.
    """
    return VoxelView(labels.shape, lambda region: description.mask(name, labels[region]))


def mask_surfaces(labels: Voxels, description: Description) -> dict[str, Surface]:
    """Returns the surfaces of all masks that have voxels, by name. Masks that share no label are read together."""
    surfaces = {}
    names = [*description.masks]
    while names:
        groups: dict[int, str] = {}  # the mask of each label
        for name in names:
            if groups.keys().isdisjoint(description.masks[name]):
                groups |= dict.fromkeys(description.masks[name], name)
        together = [*dict.fromkeys(groups.values())]
        table = np.zeros(1 + np.iinfo(np.uint8).max, np.uint8)
        table[[*groups]] = [1 + together.index(name) for name in groups.values()]
        found = surface_voxels(table[np.asarray(labels[region], np.uint8)] for region in slabs(whole(labels.shape)))
        surfaces |= {together[group - 1]: surface for group, surface in found.items()}
        names = [name for name in names if name not in together]
    return surfaces


def scored_views(prediction: Voxels, reference: Voxels, description: Description) -> tuple[Voxels, Voxels]:
    """Returns prediction and reference with background at excluded voxels; see `scored_labels`.

    Args:
      prediction: labels of the prediction.
      reference: labels of the reference, of the same shape.
      description: the meaning of the labels. Without an ignore label, the arguments are returned unchanged.
    """
    if description.ignore is None:
        return prediction, reference

    def read(index: int, region: Region) -> np.ndarray:
        return scored_labels(prediction[region], reference[region], description)[index]

    first, second = (VoxelView(reference.shape, functools.partial(read, index)) for index in range(2))
    return first, second


def without_axes(volume: Voxels, axes: tuple[int, ...]) -> Voxels:
    """Returns a volume without some axes of length 1."""
    if not axes:
        return volume

    def read(region: Region) -> np.ndarray:
        others = iter(region)
        full = tuple(slice(0, 1) if axis in axes else next(others) for axis in range(len(volume.shape)))
        return volume[full].squeeze(axes)

    return VoxelView(tuple(length for axis, length in enumerate(volume.shape) if axis not in axes), read)


def stored_view(volume: Voxels, geometry: Geometry) -> VoxelView:
    """Returns a volume `[x, y, z]` in canonical axes as `[i, j, k]`, along the stored axes of a file.

    Args:
      volume: the volume; its shape is `geometry.shape`.
      geometry: the geometry of the file.
    """

    def read(region: Region) -> np.ndarray:
        return geometry.to_stored(volume[geometry.canonical_region(region)])

    return VoxelView(geometry.stored_shape, read)
