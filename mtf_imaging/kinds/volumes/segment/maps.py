"""Maps of a volume that are written in addition to its labels: probabilities, entropy and mutual information."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.description.description import BACKGROUND, Description
from mtf_imaging.data.formats.all_formats import write_map_slabs
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.listing.image_formats import OME_ZARR, OUTPUT_FORMATS, is_zarr
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid, Region
from mtf_imaging.data.sampling.interpolation import needed_region
from mtf_imaging.data.sampling.label_region import covered_region, resampled_region
from mtf_imaging.data.sampling.regions import PlaneOrder, region_shape
from mtf_imaging.data.sampling.sampling import Spans, way_back
from mtf_imaging.engine.layout.regions import absolute, intersection
from mtf_imaging.files.contained import contained
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.inference.network import Slices
from mtf_imaging.inference.uncertainty import map_names, uncertainty
from mtf_imaging.kinds.volumes.segment.labels import NOTHING, volume_region

PROBABILITIES = "probabilities"
_SLAB_BYTES = 32 << 20  # values of a slab; a few slabs exist at a time


@dataclasses.dataclass(frozen=True)
class MapChoice:
    """The maps to write.

    Attributes:
      probabilities: whether to write the probabilities.
      uncertainty: whether to write the entropy and, if there are several members, the mutual information.
      several: whether the network averages several members; see `inference.uncertainty`.
    """

    probabilities: bool = False
    uncertainty: bool = False
    several: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the maps; each map is a file."""
        uncertain = map_names(self.several) if self.uncertainty else ()
        return (*([PROBABILITIES] if self.probabilities else []), *uncertain)

    def paths(self, output: Path, into: Path | None) -> tuple[Path, ...]:
        """Returns the files of the maps.

        They are OME-Zarr images if the segmentation is one, otherwise NIfTI files.

        >>> [path.as_posix() for path in MapChoice(uncertainty=True).paths(Path("out/a.nrrd"), None)]
        ['out/a_entropy.nii.gz']
        >>> [path.as_posix() for path in MapChoice(uncertainty=True).paths(Path("out/a.zarr"), Path("out"))]
        ['out/entropy/a.ome.zarr']

        Args:
          output: the segmentation.
          into: the folder of the segmentations, with one subfolder per map; None for a single segmentation, whose maps
              are next to it.
        """
        formats = (*OUTPUT_FORMATS.values(), OME_ZARR)
        stem = next((stem for each in formats if (stem := each.stem(output)) is not None), output.name)
        ending = OME_ZARR.endings[0] if is_zarr(output) else ".nii.gz"
        if into is None:
            return tuple(output.with_name(f"{stem}_{name}{ending}") for name in self.names)
        below = output.parent.relative_to(into)
        return tuple(contained(into, name, (below / f"{stem}{ending}").as_posix()) for name in self.names)


#: Only the labels are written.
NO_MAPS = MapChoice()


class SlicedMaps:
    """Values on the voxels of a volume; each process has a slice on the grid of the network.

    All processes call the methods in the same order. Slabs are interpolated on demand, so no process has all values at
    the resolution of the volume.

    Args:
      slices: the slices of the processes, whose outputs have these values.
      values: `[x, y, z, values]` of this process, on the grid.
      shape: number of voxels of the volume along x, y, z.
      back: the region of the grid that overlaps the volume, and the spans of the volume; see `way_back`.
      beyond: the values of voxels beyond the grid.
      change: a function of the interpolated values.
    """

    def __init__(
        self,
        slices: Slices,
        values: np.ndarray,
        shape: Grid,
        back: tuple[Region, Spans],
        beyond: Sequence[float],
        change: Callable[[np.ndarray], np.ndarray] = np.asarray,
    ) -> None:
        self._group, self._values, self._shape = slices.group, values, shape
        self._beyond, self._change = np.asarray(beyond, np.float32), change
        self._box, self._back = back
        self._grid = region_shape(self._box)
        self._have = slices.outputs
        self._regions = [volume_region(output[:3], *back) for output in slices.outputs]

    def slabs(self, order: PlaneOrder) -> Iterator[np.ndarray]:
        """Yields the values of each slab of the volume, float32 `[x, y, z, values]`.

        In all processes except process 0, the arrays are empty.

        Args:
          order: the order of the slabs.
        """
        every = slice(0, len(self._beyond))
        for slab in self.parts(order):
            parts = [intersection(region, slab) or NOTHING for region in self._regions]
            needed = [needed_region(self._grid, self._back, part) for part in parts]
            want = [(*absolute(region, self._box), every) for region in needed]
            there = self._group.move(self._values, self._have, want)
            own = self._interpolated(there, parts[self._group.index])
            gathered = [(*slab, every), *[(*NOTHING, every)] * (len(parts) - 1)]
            yield self._group.move(own, [(*part, every) for part in parts], gathered)

    def parts(self, order: PlaneOrder) -> Iterator[Region]:
        """Yields the region of each slab of `slabs`."""
        return order.slabs(self._shape, _SLAB_BYTES // (4 * len(self._beyond)))

    def send(self, order: PlaneOrder) -> None:
        """Sends the values of this process to process 0, which calls `slabs` with the same order."""
        for _ in self.slabs(order):
            pass

    def _interpolated(self, values: np.ndarray, part: Region) -> np.ndarray:
        shape = (*region_shape(part), len(self._beyond))
        result = np.broadcast_to(self._beyond, shape).copy()
        if result.size:
            inside = covered_region(self._grid, self._back, part)
            result[inside] = self._change(resampled_region(values, self._grid, self._back, part)[inside])
        return result


class Maps:
    """The maps of one volume.

    Args:
      choice: the maps to write.
      slices: the slices of the processes.
      values: the result of the network in this process: `[x, y, z, classes]`; with `choice.uncertainty`,
        `[x, y, z, classes + 1]`, where the last value is the mean entropy of the members.
      geometry: the geometry of the volume.
      sampling: the voxel grid of the network, or its grids.
      description: the labels or regions that the network predicts.
      crop: the region of the volume that was resampled.
    """

    def __init__(
        self,
        choice: MapChoice,
        slices: Slices,
        values: np.ndarray,
        geometry: Geometry,
        sampling: AnySampling,
        description: Description,
        crop: Region,
    ) -> None:
        self._geometry, count, shape = geometry, description.num_outputs, geometry.shape
        back = way_back(sampling.spans(region_shape(crop), geometry.spacing), shape, crop)
        self._every: list[tuple[SlicedMaps, tuple[str, ...]]] = []
        if choice.probabilities:
            beyond = [float(BACKGROUND in labels) for labels in description.outputs.values()]
            own, change = slices.first_values(count), description.probabilities
            sliced = SlicedMaps(own, values[..., :count], shape, back, beyond, change)
            self._every.append((sliced, tuple(description.outputs)))
        if choice.uncertainty:
            results = uncertainty(values, description.has_regions, choice.several, description.probabilities)
            single = slices.first_values(1)
            for number, name in enumerate(map_names(choice.several)):
                sliced = SlicedMaps(single, results[..., number : number + 1], shape, back, [0])
                self._every.append((sliced, (name,)))

    def write(self, paths: Sequence[Path], provenance: Provenance | None = None) -> None:
        """Writes the maps in process 0, while the other processes call `send`.

        Args:
          paths: the files, as returned by `MapChoice.paths`.
          provenance: the provenance to store in the files; None for none.
        """
        geometry = self._geometry
        for path, (sliced, names) in zip(paths, self._every, strict=True):
            write_map_slabs(path, sliced.slabs(geometry.plane_order), geometry, names, provenance)

    def probabilities(self) -> Iterator[tuple[Region, np.ndarray]]:
        """Yields the probabilities by region in process 0, while the other processes call `send`."""
        sliced, _ = self._every[0]
        order = self._geometry.plane_order
        yield from zip(sliced.parts(order), sliced.slabs(order), strict=True)

    def send(self) -> None:
        """Sends the maps of this process to process 0."""
        for sliced, _ in self._every:
            sliced.send(self._geometry.plane_order)
