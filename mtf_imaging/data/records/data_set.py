"""The records in a folder as a training data set."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.augmentation import Augmentation
from mtf_imaging.data.intensities.window import DEFAULT_WINDOW, Window, check_window
from mtf_imaging.data.records.intensities import resolve_intensities
from mtf_imaging.data.records.label_counts import count_labels
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.records.patches import Patches
from mtf_imaging.data.records.pipeline import BatchReader, RegionsByGrid
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid, format_grid, parse_grid
from mtf_imaging.engine.layout import TensorRegion
from mtf_imaging.parameters import check_value


@dataclass(frozen=True)
class Records:
    """A data set of images and labels that `convert` wrote.

    `mtf_imaging.training.data_set` describes the interface.

    Attributes:
      window: (low, high) in HU of CT, mapped to 0..1 and clipped. A window in the `dataset.json` of a data set other
        than LiTS takes precedence over the default.
      augmentation: a function with the signature of `data.augmentation.Augmentation`, or None.
      spacing: the spacing that the records must have; see `open_records`.
      intensities: {channel: intensity scheme} of channels that do not use the scheme in `dataset.json`, for example
        `{"FLAIR": "z-score"}`.
      patches: the patches to train on; None for whole records.
    """

    window: Window = DEFAULT_WINDOW
    augmentation: Callable | None = None
    spacing: str | None = None
    intensities: Mapping[str, str] | None = None
    patches: Patches | None = field(default=None, repr=False)  # cross_validate records it as a separate setting

    def sampling(self, data_dir: str | Path | Subset) -> AnySampling:
        """Returns the resolution and spacing of the records, or their grids if there are several."""
        return open_records(data_dir, spacing=self.spacing).sampling

    def sizes(self, data_dir: str) -> Grid:
        """Returns the size of the records in voxels along x, y and z; the largest grid if there are several."""
        return self.sampling(data_dir).grids[-1]

    def grids(self, data_dir: str | Path | Subset) -> list[Grid]:
        """Returns the grid of each record."""
        return open_records(data_dir, spacing=self.spacing).grids

    def label_counts(self, data_dir: str | Path | Subset) -> np.ndarray:
        """Returns the number of voxels per label, int64 `[256]`, in up to 64 records."""
        return count_labels(data_dir)

    def batches(self, data_dir: str, *, batch_size: int, sizes: Grid, seed: int, start_step: int) -> Iterator[dict]:
        """Returns shuffled batches; see `training_batches`."""
        return self.training_batches(data_dir, batch_size, seed, start_step, resolution=self._resolution(sizes))

    def region_batches(
        self,
        data_dir: str | Path | Subset,
        *,
        batch_size: int,
        sizes: Grid,
        seed: int,
        start_step: int,
        regions: Mapping[str, TensorRegion],
    ) -> Iterator[dict]:
        """Returns the regions of shuffled batches that this process computes; see `training_batches`."""
        by_grid = {tuple(sizes): regions}
        options: dict[str, Any] = {"resolution": self._resolution(sizes), "regions": by_grid}
        return self.training_batches(data_dir, batch_size, seed, start_step, **options)

    def batches_of_any_size(
        self,
        data_dir: str | Path | Subset,
        *,
        batch_size: int,
        seed: int,
        start_step: int,
        regions: RegionsByGrid,
        parts: int = 1,
    ) -> Iterator[dict]:
        """Returns the regions of shuffled batches of records with several grids; see `training_batches`."""
        return self.training_batches(data_dir, batch_size, seed, start_step, parts=parts, regions=regions)

    def training_batches(
        self,
        data_dir: str | Path | Subset,
        batch_size: int,
        seed: int,
        start_step: int = 0,
        *,
        resolution: str | int | None = None,
        shuffle: bool = True,
        parts: int = 1,
        regions: RegionsByGrid | None = None,
    ) -> Iterator[dict]:
        """Yields batches endlessly.

        With n cases, sample s of a run belongs to batch s // batch_size and epoch s // n. It is element s % n of a
        permutation of the cases that depends only on the seed and the epoch, so no earlier sample has to be computed.
        Batches continue across the ends of epochs, so a batch may have more samples than there are cases.

        If the records have several grids, all samples of a batch have the same grid. The batches of a grid are the same
        as for a folder with only the cases of that grid. Among n consecutive batches that start at a multiple of n,
        each grid occurs once per case, so all cases occur equally often. The order of the grids depends only on the
        seed.

        With patches, each sample is a patch of its case. Its position depends only on the seed and the sample number.
        A batch then mixes cases of all grids.

        Args:
          data_dir: records folder.
          batch_size: number of samples in a batch.
          seed: seed for the order and the augmentation.
          start_step: number of the first batch. The batches are the same as in a run that starts at step 0.
          resolution: the required grid of the records, in the format of `parse_grid`; None accepts any grid.
          shuffle: whether to shuffle; if False, every epoch has the order of the manifest.
          parts: the number of consecutive batches with the same grid, for micro-batches.
          regions: {grid: {"image": region, "labels": region}}, the regions of this process; None for whole batches.
            With patches, the grid is the size of a patch.

        Yields:
          `{"image": Tensor[batch, x, y, z, channels] float32, "labels": Tensor[batch, x, y, z] int32, "cases": list of
          keys}`: the regions of the tensors, and the keys of all cases in the batch. With `regions`, and if the records
          have several grids, also "sizes", the grid of the batch.

        Raises:
          DataError: the folder does not contain a complete set of records with this sampling. The iterator raises it if
            a record is damaged or does not match the manifest.
          ConfigError: `batch_size` is below 1, or `start_step` is below 0; `intensities` names an unknown channel, the
            augmentation needs labels that are not in the records, or a record is smaller than a patch.
        """
        check_value("batch_size", batch_size, int)
        check_value("start_step", start_step, int, least=0)
        window = check_window(self.window)
        manifest = open_records(data_dir, None if resolution is None else parse_grid(resolution), self.spacing)
        schemes = resolve_intensities(manifest, window, self.intensities)
        if isinstance(self.augmentation, Augmentation):
            self.augmentation.check(replace(manifest.description, intensities=schemes))
        if self.patches is not None:
            self.patches.check(manifest, data_dir)
        reader = BatchReader(data_dir, batch_size, schemes, self.augmentation, shuffle, regions, self.patches)
        return reader.batches(manifest, seed, start_step, parts)

    def _resolution(self, sizes: Grid) -> str | None:
        """Returns the resolution that the records must have; None if the samples are patches."""
        return None if self.patches else format_grid(sizes)
