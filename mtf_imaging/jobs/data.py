"""Training data and held-out cases of a job."""

import dataclasses
import functools
from pathlib import Path

from mtf_imaging.data.records.channel_maps import resolve_intensities
from mtf_imaging.data.records.data_set import Records
from mtf_imaging.data.records.manifest import is_plain_lits, open_records, read_manifest
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.buckets import Samplings
from mtf_imaging.data.sampling.grid import AXIS_NAMES, PHOTO_AXES
from mtf_imaging.data.window import check_window
from mtf_imaging.jobs.kinds.choosing import image_kind
from mtf_imaging.jobs.kinds.kind import ImageKind
from mtf_imaging.jobs.network import AnyDescription
from mtf_imaging.settings.setting import documented
from mtf_imaging.settings.training import DataSettings
from mtf_imaging.settings.values import Resolution, parse_resolution
from mtf_imaging.training.data_set import data_sizes, reads_regions


@documented
@dataclasses.dataclass(frozen=True)
class TrainingData(DataSettings):
    """Training images, and optional held-out images that are scored during training."""

    @property
    def is_records(self) -> bool:
        """Whether the images are records."""
        return isinstance(self.data_set, Records)

    @property
    def reads_regions(self) -> bool:
        """Whether each process reads only its own region of a batch."""
        return reads_regions(self.data_set)

    @functools.cached_property
    def kind(self) -> ImageKind | None:
        """The kind of the images; None for records and custom data sets."""
        return image_kind(self.data_set)

    @property
    def has_fixed_order(self) -> bool:
        """Whether the order of the images does not depend on the batch size; older custom data sets may differ."""
        return self.reads_regions or self.kind is not None

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the spatial dimensions in a resolution."""
        return AXIS_NAMES if self.kind is None else PHOTO_AXES

    @property
    def has_several_grids(self) -> bool:
        """Whether the images are records with several grids; see `convert`."""
        if not isinstance(self.data_set, Records) or self._is_missing:
            return False
        return isinstance(self.data_set.sampling(self.data_dir), Samplings)

    @property
    def description(self) -> AnyDescription | None:
        """The description of the records, with the intensity schemes of the training, or of the photos or objects.

        None for a custom data set, and for records that do not exist yet, which a dry run accepts. The window of
        `data_set` applies to LiTS, so the description of LiTS does not contain it.
        """
        if self.kind is not None:
            return self.kind.description(_folder(self.data_dir))
        if not isinstance(self.data_set, Records) or self._is_missing:
            return None
        manifest, window = open_records(self.data_dir), self.data_set.window
        schemes = resolve_intensities(manifest, window, self.data_set.intensities)
        if is_plain_lits(manifest.description) and schemes[0].window == check_window(window):
            return manifest.description
        return dataclasses.replace(manifest.description, intensities=schemes)

    @property
    def _is_missing(self) -> bool:
        return read_manifest(Path(self.data_dir)) is None

    @property
    def held_out_split(self) -> str | None:
        """The split of the held-out images in `eval_dir`; None for all images, and for records.

        Raises:
          DataError: `eval_dir` holds other images.
        """
        return self.kind.held_out_split(_folder(self.eval_dir)) if self.kind is not None and self.eval_dir else None

    def sizes(self, resolution: Resolution | None = None) -> tuple[int, ...]:
        """Returns the voxels along each spatial dimension: `resolution`, or the default of the data if it is None.

        If there are several grids, these are the voxels of the largest one.
        """
        if resolution is None:
            return data_sizes(self.data_set, self.data_dir)
        if not isinstance(resolution, str | int):
            return parse_resolution(resolution)
        dims = 3 if self.is_records else len(data_sizes(self.data_set, self.data_dir))
        return parse_resolution(resolution, dims, self.axes)


def _folder(data_dir: str | Path | Subset) -> Path:
    """Returns the folder of photos or objects; only records have subsets."""
    assert isinstance(data_dir, str | Path)
    return Path(data_dir)


def as_training_data(data: "TrainingData | str | Path") -> TrainingData:
    """Returns a `TrainingData` unchanged; wraps a folder of records in a `TrainingData`."""
    return data if isinstance(data, TrainingData) else TrainingData(data)
