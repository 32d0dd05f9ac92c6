"""Creates the record of a case: reads the case, reorients it to RAS+ and resamples it, slab by slab."""

import contextlib
import dataclasses
import os

import nibabel
import numpy as np

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.images.channels import channel_slabs
from mtf_imaging.data.images.cropping import CroppedLabels
from mtf_imaging.data.images.image_statistics import image_statistics
from mtf_imaging.data.images.nonzero import CroppedSource, crop_to_nonzero
from mtf_imaging.data.images.sources import ImageSource, VoxelSource, read_slabs
from mtf_imaging.data.images.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.images.voxel_values import any_labeled, warn_of_empty
from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.reading.open_sources import open_image_source, open_mask
from mtf_imaging.data.records.facts import Facts
from mtf_imaging.data.records.manifest import has_hu, is_plain_lits
from mtf_imaging.data.records.record_writer import RecordWriter
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid, whole_region
from mtf_imaging.data.sampling.sampling import Spans
from mtf_imaging.data.sampling.slabs import nearest_slabs


@dataclasses.dataclass(frozen=True)
class Made:
    """The result of creating a record.

    Attributes:
      facts: the facts about the case in the record.
      grid: size of the record in voxels along x, y, z.
      is_labeled: whether any voxel has a label other than the background or ignore label.
    """

    facts: Facts
    grid: Grid
    is_labeled: bool


def write_case(
    case: Case,
    path: str | os.PathLike,
    sampling: AnySampling,
    known: SpacingTable = NO_TABLE,
    description: Description = LITS,
    chunk: Grid | None = None,
) -> Made:
    """Reads a case, resamples the image linearly and the labels to the nearest neighbor, and writes its record.

    All steps take place in slabs, so a conversion takes little memory. Logs a warning if the mask is empty or if mask
    voxels are cropped.

    Args:
      case: a case with its segmentation.
      path: path of the record.
      sampling: resolution and spacing of the record, or several grids to choose from.
      known: voxel sizes of files whose headers lack them.
      description: the channels, labels and masks of the case.
      chunk: size of a chunk in voxels along x, y, z; None for the default.

    Raises:
      DataError: one of its files cannot be used, or the bytes on disk differ from the bytes that were written.
    """
    with contextlib.closing(open_image_source(case.channels, description, known)) as image:
        whole, crop = image, whole_region(image.geometry.shape)
        if description.crops_to_nonzero:
            crop, image = crop_to_nonzero(image, fill_holes=False)
        geometry = image.geometry
        statistics = () if is_plain_lits(description) else _checked_statistics(image, description)
        grid = sampling.choose(geometry.shape, geometry.spacing).grid
        spans = sampling.spans(geometry.shape, geometry.spacing)
        num_channels = None if has_hu(description) else len(image.channels)
        with (
            contextlib.closing(open_mask(case.labels, whole, description)) as mask,
            RecordWriter(path, grid, num_channels, chunk) as writer,
        ):
            _write_image(writer, image, spans, grid, num_channels is None)
            is_labeled = _write_labels(writer, CroppedSource(mask, crop, geometry), spans, grid, description)
            _check_mask(mask, CroppedLabels(whole.geometry, sampling, description, crop), description, is_labeled)
            start = nibabel.affines.from_matvec(np.eye(3), [at.start for at in crop])
            facts = Facts(
                key=case.key,
                affine=whole.geometry.canonical_affine @ start,
                shape=geometry.shape,
                spacing=geometry.spacing,
                sampled_at=sampling.spacing,
                axis_codes=geometry.axis_codes,
                source=case.digest(),
                statistics=statistics,
                is_cropped=description.crops_to_nonzero,
            )
            writer.finish(facts)
    return Made(facts, grid, is_labeled)


def _checked_statistics(image: ImageSource, description: Description) -> tuple[ChannelStatistics, ...]:
    """Returns the statistics of each channel, and checks that its intensity scheme suits them."""
    statistics = image_statistics(image)
    for name, channel, intensity in zip(image.names, statistics, description.intensities, strict=True):
        intensity.check(channel, f"{image.path} ({name})")
    return statistics


def _write_image(writer: RecordWriter, image: ImageSource, spans: Spans, grid: Grid, as_hu: bool) -> None:
    axis = image.order.axis
    for slab, values in channel_slabs(image, spans, whole_region(grid)):
        writer.write_image(values[..., 0].astype(np.int16) if as_hu else values, slab[axis].start, axis)
    image.check()
    image.close()


def _write_labels(writer: RecordWriter, mask: VoxelSource, spans: Spans, grid: Grid, description: Description) -> bool:
    """Writes the labels of a mask; returns whether the grid has a labeled voxel."""
    axis, is_labeled = mask.order.axis, False
    for slab, labels in nearest_slabs(mask.read, mask.geometry.shape, spans, whole_region(grid), order=mask.order):
        writer.write_labels(labels, slab[axis].start, axis)
        is_labeled = is_labeled or any_labeled(labels, description)
    mask.check()
    return is_labeled


def _check_mask(mask: VoxelSource, cropped: CroppedLabels, description: Description, is_labeled: bool) -> None:
    """Warns if a mask is empty or cropped; reads it again only if the labels on the grid do not answer this.

    Args:
      mask: the labels.
      cropped: the counts of cropped voxels.
      description: the labels and masks.
      is_labeled: whether the labels on the grid show that the mask is not empty.
    """
    if is_labeled and not cropped.is_possible:
        return
    for region, labels in read_slabs(mask):
        is_labeled = is_labeled or any_labeled(labels, description)
        if cropped.is_possible:
            cropped.add(region, labels)
    if not is_labeled:
        warn_of_empty(mask.path, description)
    cropped.warn(mask.path)
