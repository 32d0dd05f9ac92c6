"""Segmentation of volumes of any size and orientation by a network with a fixed grid."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.formats.all_formats import write_label_slabs
from mtf_imaging.data.formats.dicom.label_codes import LabelCodes
from mtf_imaging.data.images.compact_labels import CompactLabels
from mtf_imaging.data.images.geometry import Geometry
from mtf_imaging.data.images.sources import ImageSource
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW, Window
from mtf_imaging.data.reading.open_sources import open_image_source, open_volume
from mtf_imaging.data.records.manifest import is_plain_lits
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid, Region, whole_region
from mtf_imaging.evaluation.cleanup.cleanup import AS_FOUND, Cleanup
from mtf_imaging.files.blocks import is_small
from mtf_imaging.files.provenance.provenance import Provenance
from mtf_imaging.files.unfinished import Unfinished
from mtf_imaging.inference.network import Network, as_network, of_function
from mtf_imaging.kinds.networks import is_alone
from mtf_imaging.kinds.volumes.segment.images import crop_of, input_region, source_statistics
from mtf_imaging.kinds.volumes.segment.labels import Labeling, SlicedLabels
from mtf_imaging.kinds.volumes.segment.maps import NO_MAPS, MapChoice, Maps

if TYPE_CHECKING:
    from mtf_imaging.engine.meshes.group import Group

# image [x, y, z, channels] float32 -> probabilities [x, y, z, classes or regions]
PredictProbabilities = Callable[[np.ndarray], np.ndarray]


class Input(NamedTuple):
    """The input of the network for one volume.

    Attributes:
      crop: the region of the volume that is resampled.
      grid: the voxels of the network's input along x, y and z.
      image: the region of this process, float32 `[x, y, z, channels]`.
    """

    crop: Region
    grid: Grid
    image: np.ndarray


@dataclasses.dataclass(frozen=True)
class Segmenter:
    """How volumes are segmented; each process computes a slice.

    A volume is resampled to the grid of the network, and its intensities are mapped as in training. The probabilities,
    or the logits of nnU-Net, are resampled back to the volume's own voxels, and each voxel gets the most probable
    class. Voxels outside the sampled box become background.

    Attributes:
      sampling: the voxel grid of the network, or its grids.
      window: for LiTS, (low, high) in HU; other descriptions contain the intensity schemes.
      description: the channels of the image, and the labels or regions that the network predicts.
      known: voxel sizes of files whose headers lack them.
      maps: the maps to compute in addition to the labels. With `maps.uncertainty`, the network appends the entropy
        (`with_entropy`).
      cleanup: rules that the labels must obey before they are written.
    """

    sampling: AnySampling
    window: Window = DEFAULT_WINDOW
    description: Description = LITS
    known: SpacingTable = NO_TABLE
    maps: MapChoice = NO_MAPS
    cleanup: Cleanup = AS_FOUND

    def open(self, case: Case) -> ImageSource:
        """Opens the image of a case. Each process reads the voxels that its slice needs."""
        if is_plain_lits(self.description):
            return open_volume(case.volume, self.known)
        return open_image_source(case.channels, self.description, self.known)

    def grid(self, geometry: Geometry) -> Grid:
        """Returns the voxels of the network's input along x, y and z for a volume."""
        return self.sampling.choose(geometry.shape, geometry.spacing).grid

    def read_small(self, source: ImageSource) -> Input | None:
        """Returns the input of the network if it and the probabilities stay in memory and this process is alone."""
        channels, values = len(source.channels), self.description.num_outputs + 1  # with the entropy
        grids = self.sampling.grids or (self.grid(source.geometry),)
        if is_alone() and all(is_small((*grid, max(channels, values)), np.float32) for grid in grids):
            return self._read(source, of_function(np.asarray, channels, values))
        return None

    def _read(self, source: ImageSource, network: Network) -> Input:
        """Returns what this process passes to a network."""
        own = self.description
        with contextlib.closing(source):
            crop, cropped = crop_of(source, self.sampling, own)
            slices = network.slices(grid := self.grid(cropped.geometry))
            *region, channels = slices.inputs[slices.group.index]
            statistics = _statistics(slices.group, cropped, own)
            image = input_region(cropped, self.sampling, tuple(region), self.window, own, statistics)
            slices.group.first(source.check)
        if channels.stop - channels.start < image.shape[-1]:
            image = image[(*whole_region(image.shape[:3]), channels)]
        return Input(crop, grid, image)

    def segment(
        self,
        source: ImageSource,
        predict_probabilities: PredictProbabilities,
        begun: Unfinished | None = None,
        small: Input | None = None,
    ) -> "Segmentation":
        """Segments one volume.

        Args:
          source: the volume, as returned by `open`.
          predict_probabilities: the network. If it is a `Network`, all processes make the same call.
          begun: the labels that an earlier process has finished, if the volume is so large that it takes long.
          small: the result of `read_small`; None reads the image.

        Raises:
          ShapeError: the network returned an array of the wrong shape.
          DataError: the file is damaged, or the network returned NaN or infinity.
        """
        own = self.description
        count = own.num_outputs + int(self.maps.uncertainty)
        network = as_network(predict_probabilities, len(source.channels), count)
        crop, grid, image = small or self._read(source, network)
        slices = network.slices(grid)
        place = source.geometry, self.sampling
        factors = self.cleanup.factors(own)
        begun = None if self.maps.names or is_small(image.shape, image.dtype) else begun
        labeling = Labeling(slices.first_values(own.num_outputs), *place, source.path, own, crop, factors, begun)
        maps, label = None, labeling.finish
        if small or self.maps.names:
            values = slices.predict_image(image)
            label = functools.partial(labeling.of_all, values[..., : own.num_outputs])
            maps = Maps(self.maps, slices, values, *place, own, crop) if self.maps.names else None
        else:
            slices.predict_parts(image, labeling.add, labeling.first)
        return Segmentation(source, label, maps, self.cleanup, own.stored, crop)


@dataclasses.dataclass(frozen=True)
class Segmentation:
    """A segmented volume; each process has a region.

    Process 0 calls `write`, and then `Maps.write`, while the other processes call `send`.

    Attributes:
      source: the volume.
      label: returns the labels on the voxels of the volume, which are computed when they are first used.
      maps: the maps to write in addition to the labels; None for none.
      cleanup: rules that the labels must obey before they are written.
      stored: the values of the labels in files; see `Description`.
      crop: the region of the volume that was resampled.
    """

    source: ImageSource
    label: Callable[[], SlicedLabels]
    maps: Maps | None
    cleanup: Cleanup
    stored: Mapping[int, int]
    crop: Region

    @functools.cached_property
    def labels(self) -> SlicedLabels:
        """The labels on the voxels of the volume."""
        return self.label()

    def send(self) -> None:
        """Sends the labels and maps of this process to process 0."""
        self.labels.send(self.source.geometry.plane_order)
        if self.maps is not None:
            self.maps.send()

    def write(
        self,
        output: Path,
        provenance: Provenance | None = None,
        segments: Mapping[str, LabelCodes] | None = None,
        keep: bool = False,
    ) -> CompactLabels | None:
        """Writes the labels.

        Args:
          output: the file to write.
          provenance: the provenance to store in the file; None for none.
          segments: the label codes, for DICOM-SEG.
          keep: whether to return the labels.

        Returns:
          The written labels, or None.
        """
        source, geometry, order = self.source, self.source.geometry, self.source.geometry.plane_order
        if not self.cleanup.resolved and not keep:
            write_label_slabs(output, self.labels.slabs(order), geometry, segments, provenance, self.stored)
            return None
        final = self.cleanup(self.labels.compact(order), geometry.spacing, source.path)
        parts = (final[slab] for slab in self.labels.parts(order))
        write_label_slabs(output, parts, geometry, segments, provenance, self.stored)
        return final


def _statistics(group: "Group", source: ImageSource, description: Description) -> list[ChannelStatistics]:
    """Returns the distribution of each channel, which process 0 computes."""
    fields = group.first(lambda: [dataclasses.asdict(each) for each in source_statistics(source, description)])
    return [ChannelStatistics(**each) for each in fields]
