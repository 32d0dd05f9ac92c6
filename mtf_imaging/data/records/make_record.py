"""Makes the record of a case: reads it, reorients it to RAS+ and resamples it."""

import hashlib

import numpy as np

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.cases.description import LITS, Description
from mtf_imaging.data.cases.listing import files_of_image
from mtf_imaging.data.intensities import ChannelStatistics, Intensity
from mtf_imaging.data.modality import AIR_HU
from mtf_imaging.data.nifti.channels import Image, read_image
from mtf_imaging.data.nifti.images import read_labels, read_volume
from mtf_imaging.data.nifti.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.nifti.voxel_values import warn_if_empty
from mtf_imaging.data.records.manifest import has_hu, is_plain_lits
from mtf_imaging.data.records.record import Record
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.channels import resample_channels
from mtf_imaging.data.sampling.cropping import warn_of_cropped_labels
from mtf_imaging.data.sampling.resample import resample_linear, resample_nearest
from mtf_imaging.data.statistics import channel_statistics


def make_record(
    case: Case, sampling: AnySampling, known: SpacingTable = NO_TABLE, description: Description = LITS
) -> Record:
    """Reads a case and resamples it, the image linearly and the labels to the nearest neighbor.

    Logs a warning if the mask is empty or if voxels of a mask are cropped.

    Args:
      case: a case with its segmentation.
      sampling: resolution and spacing of the record, or several grids to choose from.
      known: voxel sizes of files whose headers lack them.
      description: the channels, labels and masks of the case.

    Raises:
      DataError: one of its files cannot be used.
    """
    if is_plain_lits(description):
        volume = read_volume(case.volume, known)
        geometry, statistics = volume.geometry, ()
        spans = sampling.spans(geometry.shape, geometry.spacing)
        hu, values = _as_hu(resample_linear(volume.hu, spans, AIR_HU)), None
    else:
        volume = read_image(case.channels, description, known)
        geometry = volume.geometry
        statistics = _statistics(volume, description.intensities)
        spans = sampling.spans(geometry.shape, geometry.spacing)
        hu, values = None, resample_channels(volume.channels, volume.names, spans)
        if has_hu(description):
            hu, values = _as_hu(values[..., 0]), None
    volume = volume.without_voxels()
    labels = read_labels(case.labels, volume, description)
    warn_if_empty(case.labels, labels, description)
    warn_of_cropped_labels(case.labels, labels, geometry, sampling, description)
    return Record(
        key=case.key,
        hu=hu,
        labels=resample_nearest(labels, spans),
        affine=geometry.canonical_affine,
        shape=geometry.shape,
        spacing=geometry.spacing,
        sampled_at=sampling.spacing,
        axis_codes=geometry.axis_codes,
        source=digest(case),
        values=values,
        statistics=statistics,
    )


def _as_hu(resampled: np.ndarray) -> np.ndarray:
    return np.rint(resampled, out=resampled).astype(np.int16)


def _statistics(image: Image, intensities: tuple[Intensity, ...]) -> tuple[ChannelStatistics, ...]:
    """Returns the statistics of each channel, and checks that its intensity scheme suits them."""
    statistics = []
    for name, values, intensity in zip(image.names, image.channels, intensities, strict=True):
        statistics.append(channel_statistics(values))
        intensity.check(statistics[-1], f"{image.path} ({name})")
    return tuple(statistics)


def digest(case: Case) -> str:
    """Returns a digest of the contents of a case's files; dates are ignored because copying changes them."""
    contents = hashlib.blake2b(digest_size=16)
    for path in (*case.channels, case.labels):
        for name in files_of_image(path):
            if name is not path:
                contents.update(name.relative_to(path).as_posix().encode())
            with open(name, "rb") as file:
                while block := file.read(1 << 22):
                    contents.update(block)
    return contents.hexdigest()
