"""Training data and held-out cases of a job."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

from mtf_imaging.data.label_survey import LabelSurvey
from mtf_imaging.data.pairs import ArrayPairs
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.patches import Patches
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.patch_sizes import check_patch, parse_patch
from mtf_imaging.kinds.all_kinds import explained, kind_of_data_set
from mtf_imaging.kinds.facts import ARRAYS, VOLUMES
from mtf_imaging.kinds.kind import Kind, TrainingImages
from mtf_imaging.settings.setting import documented, filled
from mtf_imaging.settings.training import CrossValidateSettings, DataSettings, TrainSettings
from mtf_imaging.settings.values import Resolution, parse_resolution
from mtf_imaging.training.data_set import data_sizes, reads_regions


@documented
@dataclasses.dataclass(frozen=True)
class TrainingData(DataSettings):
    """Training images, and optional held-out images that are scored during training."""

    @property
    def is_records(self) -> bool:
        """Whether the images are records."""
        return self.kind.name == VOLUMES

    @property
    def records(self) -> Records:
        """The data set, if the images are records."""
        assert isinstance(self.data_set, Records)
        return self.data_set

    @property
    def reads_regions(self) -> bool:
        """Whether each process reads only its own region of a batch."""
        return reads_regions(self.data_set)

    @functools.cached_property
    def kind(self) -> Kind:
        """The kind of the images."""
        return kind_of_data_set(self.data_set)

    @functools.cached_property
    def images(self) -> TrainingImages[Any, Any]:
        """The images of the data set."""
        return self.kind.training(self.data_set)

    @property
    def has_fixed_order(self) -> bool:
        """Whether the image order is independent of the batch size; older custom data sets may differ."""
        return self.reads_regions or self.kind.name != ARRAYS

    @property
    def has_several_grids(self) -> bool:
        """Whether the images are records with several grids; see `convert`."""
        return self.images.has_several_grids(self.data_dir)

    @property
    def patch(self) -> Grid | None:
        """The size of the patches in voxels; None for whole images."""
        patches = getattr(self.data_set, "patches", None) if self.is_records else None
        return patches.sizes if patches else None

    @property
    def description(self) -> Any:
        """The description of the images; None for a custom data set, and for records that do not exist yet."""
        with explained(self.data_dir, self.kind, "data_dir", "data"):
            return self.images.description(self.data_dir)

    @functools.cached_property
    def label_survey(self) -> LabelSurvey | None:
        """The label survey of the training images; None for a custom data set."""
        with explained(self.data_dir, self.kind, "data_dir", "data"):
            return self.images.label_survey(self.data_dir, self.description, is_held_out=False)

    @property
    def held_out_split(self) -> str | None:
        """The split of the held-out images in `eval_dir`; None for all images, and for records.

        Raises:
          DataError: `eval_dir` contains other images.
        """
        with explained(self.eval_dir, self.kind, "eval_dir", "data"):
            return self.images.held_out_split(self.eval_dir) if self.eval_dir else None

    def sizes(self, resolution: Resolution | None = None) -> tuple[int, ...]:
        """Returns the voxels along each spatial dimension: `resolution`, or the data's default if it is None.

        If there are several grids, these are the voxels of the largest one.
        """
        if resolution is None:
            return data_sizes(self.data_set, self.data_dir)
        if not isinstance(resolution, str | int):
            return parse_resolution(resolution)
        dims = 3 if self.is_records else len(data_sizes(self.data_set, self.data_dir))
        return parse_resolution(resolution, dims, self.kind.axes)


def as_training_data(data: DataSettings | str | Path | tuple[Any, Any]) -> TrainingData:
    """Returns a `TrainingData` unchanged; wraps a records folder, or a pair of arrays, in a `TrainingData`."""
    if isinstance(data, TrainingData):
        return data
    if isinstance(data, tuple):
        return TrainingData("arrays", data_set=ArrayPairs(*data))
    return filled(TrainingData, data) if isinstance(data, DataSettings) else TrainingData(data)


def with_patches(data: TrainingData, own: TrainSettings | CrossValidateSettings) -> TrainingData:
    """Returns training data whose samples are patches; without the setting `patch`, the same data.

    Args:
      data: the training data.
      own: the settings of the job, which include those of the patches.
    """
    if own.patch is None:
        return data
    x, y, z = parse_patch(own.patch)
    patches = Patches((x, y, z), own.centered_patches, own.centered_labels, own.batch_size)
    return dataclasses.replace(data, data_set=dataclasses.replace(data.records, patches=patches))


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
