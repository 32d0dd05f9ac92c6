"""Training on patches of records instead of whole volumes."""

import dataclasses
from typing import Any

from mtf_imaging.data.records.patches import Patches
from mtf_imaging.data.sampling.patch_sizes import check_patch, parse_patch
from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.data import TrainingData
from mtf_imaging.settings.patches import PatchSettings
from mtf_imaging.settings.setting import settings_of
from mtf_imaging.settings.training import CrossValidateSettings, TrainSettings


def with_patches(data: TrainingData, own: TrainSettings | CrossValidateSettings) -> TrainingData:
    """Returns training data whose samples are patches; without the setting `patch`, the same data.

    Args:
      data: the training data.
      own: the settings of the job, which include those of the patches.

    Raises:
      ConfigError: a setting has no effect, because there are no patches or the data are not records.
    """
    if own.patch is None:
        for one in settings_of(PatchSettings):
            if getattr(own, one.name) != one.default:
                raise ConfigError(
                    f"{one.name} = {getattr(own, one.name)!r} has no effect without patch. Fix: give both, or leave "
                    f"{one.name} out.",
                    [one.name, "patch"],
                )
        return data
    if not data.is_records:
        raise ConfigError(
            f"patch = {own.patch!r}: only records are trained on patches, but the data set is of class "
            f"{type(data.data_set).__name__}. Fix: leave patch out, and let the data set return crops; the resolution "
            "of photos and objects is such a crop.",
            ["patch"],
        )
    x, y, z = parse_patch(own.patch)
    patches = Patches((x, y, z), own.centered_patches, own.centered_labels, own.batch_size)
    records: Any = data.data_set
    return dataclasses.replace(data, data_set=dataclasses.replace(records, patches=patches))


def sample_sizes(data: TrainingData, whole: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the size of a step's images in voxels: a patch or a whole image.

    Args:
      data: the training data.
      whole: the voxels of whole images.

    Raises:
      ConfigError: a patch is larger than the image.
    """
    if data.patch is None:
        return whole
    check_patch(data.patch, whole)
    return data.patch
