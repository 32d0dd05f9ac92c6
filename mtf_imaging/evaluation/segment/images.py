"""The image of a case, as the input of a network."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mtf_imaging.data.cases.cases import Case, find_cases
from mtf_imaging.data.cases.dataset_json import find_description
from mtf_imaging.data.cases.description import LITS, Description
from mtf_imaging.data.intensity import DEFAULT_WINDOW, Window, window_in_place
from mtf_imaging.data.modality import AIR_HU
from mtf_imaging.data.network_input import apply_intensities
from mtf_imaging.data.nifti.channels import Image, read_image
from mtf_imaging.data.nifti.images import Volume, read_volume
from mtf_imaging.data.nifti.spacing_table import NO_TABLE, SpacingTable
from mtf_imaging.data.records.manifest import is_plain_lits
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.channels import resample_channels
from mtf_imaging.data.sampling.resample import resample_linear
from mtf_imaging.data.statistics import channel_statistics
from mtf_imaging.errors import DataError


def find_cases_of(path: str | Path, description: Description, need_labels: bool = True) -> list[Case]:
    """Finds the cases of a folder, for a network that was trained on data of a description.

    Args:
      path: a folder, or the file of one image if `need_labels` is False; see `find_cases`. Its `dataset.json`, if there
        is one, must name the same channels and, for scores, the same labels.
      description: the description of the training data.
      need_labels: whether the cases are scored, so that they need a segmentation.

    Raises:
      DataError: `find_cases` refuses the folder, or its `dataset.json` contradicts the description.
    """
    own = find_description(path)[0]
    if own is not None:
        _check_same(path, "channels", own.channels, description.channels)
        if need_labels:
            _check_same(path, "labels", _listed(own.labels), _listed(description.labels))
    if own is None and is_plain_lits(description):
        return find_cases(path, need_labels)
    return find_cases(path, need_labels, own or description)


def _listed(labels: Mapping[str, int]) -> list[str]:
    return [f"{value} {name}" for name, value in labels.items()]


def _check_same(path: str | Path, what: str, found: Sequence[str], expected: Sequence[str]) -> None:
    if [*found] != [*expected]:
        raise DataError(
            f"{path}: dataset.json has the {what} {', '.join(found)}, but the network was trained with "
            f"{', '.join(expected)}. Fix: give data like those of the training."
        )


def read_case(case: Case, known: SpacingTable = NO_TABLE, description: Description = LITS) -> Volume | Image:
    """Reads the image of a case: the CT of LiTS, or the channels of any other description."""
    if is_plain_lits(description):
        return read_volume(case.volume, known)
    return read_image(case.channels, description, known)


def network_input(
    image: Volume | Image, sampling: AnySampling, window: Window = DEFAULT_WINDOW, description: Description = LITS
) -> np.ndarray:
    """Returns the input of the network, float32 `[x, y, z, channels]` on the grid of `sampling`.

    Args:
      image: the image, as returned by `read_case`.
      sampling: the voxel grid of the network, or its grids.
      window: (low, high) in HU of a CT of LiTS, which is mapped to 0..1.
      description: the channels and, for other data sets than LiTS, their intensity schemes.
    """
    spans = sampling.spans(image.geometry.shape, image.geometry.spacing)
    if isinstance(image, Volume):
        hu = resample_linear(image.hu, spans, AIR_HU)
        # Records store whole HU, so rounding makes the image equal to that of training.
        return window_in_place(np.rint(hu, out=hu), window)[..., np.newaxis]
    values = resample_channels(image.channels, image.names, spans)
    return apply_intensities(values, description.intensities, [*map(channel_statistics, image.channels)])


def shown_image(image: Volume | Image) -> np.ndarray:
    """Returns the first channel, `[x, y, z]`, which pictures show."""
    return image.hu if isinstance(image, Volume) else image.channels[0]
