"""The image of a case, as the input of a network."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.cases.cases import Case, find_cases
from mtf_imaging.data.description.dataset_json import find_description
from mtf_imaging.data.description.description import LITS, Description
from mtf_imaging.data.description.differences import channel_differences, differences, refuse_differences
from mtf_imaging.data.images.channels import channel_slabs
from mtf_imaging.data.images.image_statistics import read_statistics
from mtf_imaging.data.images.nonzero import crop_to_nonzero
from mtf_imaging.data.images.normalized import normalized_region
from mtf_imaging.data.images.sources import ImageSource
from mtf_imaging.data.intensities.schemes import WINDOW, Intensity, channel_scalings, overwrite_with_input
from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW, Window
from mtf_imaging.data.records.manifest import is_plain_lits
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Region, whole_region
from mtf_imaging.data.sampling.regions import moved, region_shape
from mtf_imaging.files.blocks import Voxels, working_array


def find_cases_of(path: str | Path, description: Description, need_labels: bool = True) -> list[Case]:
    """Finds the cases in a folder for a network that was trained on data with the given description.

    Args:
      path: a folder, or the file of one image if `need_labels` is False; see `find_cases`. Its `dataset.json`, if there
          is one, must name the same channels and, for scoring, the same labels, masks, ignore label and rules.
      description: the description of the training data.
      need_labels: whether the cases are scored, so that they need a segmentation.

    Raises:
      DataError: `find_cases` refuses the folder, or its `dataset.json` contradicts the description.
    """
    own = find_description(path)[0]
    if own is not None:
        found = (differences if need_labels else channel_differences)(own, description)
        fix = "give data like the training data."
        refuse_differences(f"{path}: dataset.json has", found, "the network was trained with", fix)
    if own is None and is_plain_lits(description):
        return find_cases(path, need_labels)
    return find_cases(path, need_labels, own or description)


def crop_of(source: ImageSource, sampling: AnySampling, description: Description) -> tuple[Region, ImageSource]:
    """Returns the region of an image that is resampled, and the image in this region; see `crop_to_nonzero`."""
    if not (sampling.follows_nnunet or description.crops_to_nonzero):
        return whole_region(source.geometry.shape), source
    is_masked = any(each.scheme.form.keep_zero for each in description.intensities)
    return crop_to_nonzero(source, fill_holes=sampling.follows_nnunet and is_masked)


def input_region(
    source: ImageSource,
    sampling: AnySampling,
    region: Region,
    window: Window = DEFAULT_WINDOW,
    description: Description = LITS,
    statistics: Sequence[ChannelStatistics] = (),
) -> Voxels:
    """Returns one region of the network's input, and reads only the voxels that it needs.

    Args:
      source: the image, as returned by `crop_of`.
      sampling: the voxel grid of the network, or its grids.
      region: the region of the grid along x, y, z.
      window: for a LiTS CT, the range (low, high) in HU, which is mapped to 0..1.
      description: the channels and, for data sets other than LiTS, their intensity schemes.
      statistics: the result of `source_statistics`.

    Returns:
      float32 `[x, y, z, channels]`.
    """
    spans = sampling.spans(source.geometry.shape, source.geometry.spacing)
    intensities = volume_intensities(description, window)
    if sampling.follows_nnunet:
        return normalized_region(source, spans, region, channel_scalings(intensities, statistics))
    result = working_array((*region_shape(region), len(source.channels)), np.float32)
    for slab, values in channel_slabs(source, spans, region):
        result[moved(slab, region)] = overwrite_with_input(values, intensities, statistics)
    return result


def volume_intensities(description: Description, window: Window | None) -> tuple[Intensity, ...]:
    """Returns the intensity scheme of each channel; for LiTS, the window of the job."""
    if is_plain_lits(description) and window is not None:
        return (Intensity(WINDOW, tuple(window)),)
    return description.intensities


def source_statistics(source: ImageSource, description: Description = LITS) -> list[ChannelStatistics]:
    """Returns the distribution of each channel; an empty list if no intensity scheme needs it."""
    if not any(scheme.needs_statistics for scheme in description.intensities):
        return []
    return [*map(read_statistics, source.channels)]
