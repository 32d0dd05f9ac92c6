"""Writes maps of a volume, such as probabilities and their entropy, slab by slab."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.formats.nifti.write_maps import write_nifti_maps
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.listing.image_formats import is_zarr
from mtf_imaging.files.provenance.provenance import Provenance


def write_map_slabs(
    path: str | Path,
    slabs: Iterable[np.ndarray],
    geometry: Geometry,
    names: Sequence[str],
    provenance: Provenance | None = None,
) -> None:
    """Writes one or more maps in the geometry of their volume, as float32. The write is atomic.

    Args:
      path: a .nii or .nii.gz file or .ome.zarr folder to write or replace. A single map is a 3-D image. Several maps
        are the fourth axis of a NIfTI file, or the first axis of an OME-Zarr image.
      slabs: the values, float32 `[x, y, z, maps]` in canonical axes, in slabs of any thickness in the order of
        `geometry.plane_order`.
      geometry: geometry of the volume.
      names: the names of the maps.
      provenance: the provenance to store in the file; None for none.

    Raises:
      DataError: the shapes of the maps and the volume differ.
    """
    if is_zarr(Path(path)):
        from mtf_imaging.data.formats.ome_zarr.write_maps import write_zarr_maps  # takes time to import

        write_zarr_maps(path, slabs, geometry, names, provenance)
    else:
        write_nifti_maps(path, slabs, geometry.with_note(provenance.note if provenance else ""), len(names))
