"""Makes the record of a case: reads it, reorients it to RAS+ and resamples it."""

import hashlib

import numpy as np

from mtf_imaging.data.cases.cases import Case
from mtf_imaging.data.nifti.images import read_labels, read_volume
from mtf_imaging.data.nifti.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.nifti.voxel_values import AIR_HU, warn_if_empty
from mtf_imaging.data.records.record import Record
from mtf_imaging.data.sampling.cropping import warn_of_cropped_labels
from mtf_imaging.data.sampling.resample import resample_linear, resample_nearest
from mtf_imaging.data.sampling.sampling import Sampling


def make_record(case: Case, sampling: Sampling, known: SpacingTable = NO_TABLE) -> Record:
    """Reads a case and resamples it, the image linearly and the labels to the nearest neighbor.

    Logs a warning if the mask is empty or if liver or lesion is cropped.

    Args:
      case: a case with its segmentation.
      sampling: resolution and spacing of the record.
      known: voxel sizes of files whose headers lack them.

    Raises:
      DataError: one of its files cannot be used.
    """
    volume = read_volume(case.volume, known)
    geometry = volume.geometry
    spans = sampling.spans(geometry.shape, geometry.spacing)
    hu = resample_linear(volume.hu, spans, AIR_HU)
    volume = volume.without_voxels()
    hu = np.rint(hu, out=hu).astype(np.int16)
    labels = read_labels(case.labels, volume)
    warn_if_empty(case.labels, labels)
    warn_of_cropped_labels(case.labels, labels, geometry, sampling)
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
    )


def digest(case: Case) -> str:
    """Returns a digest of the contents of a case's files; dates are ignored because copying changes them."""
    contents = hashlib.blake2b(digest_size=16)
    for path in (case.volume, case.labels):
        with open(path, "rb") as file:
            while block := file.read(1 << 22):
                contents.update(block)
    return contents.hexdigest()
