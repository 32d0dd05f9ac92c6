"""The records in a folder as a training data set."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mtf_imaging.data.intensities.window import DEFAULT_WINDOW, Window
from mtf_imaging.data.records.label_counts import count_labels
from mtf_imaging.data.records.manifest import open_records
from mtf_imaging.data.records.patches import Patches
from mtf_imaging.data.records.pipeline import RegionsByGrid, training_batches
from mtf_imaging.data.records.splits import Subset
from mtf_imaging.data.sampling.buckets import AnySampling
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.engine.layout import TensorRegion


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
        return self._batches(data_dir, batch_size, seed, start_step, resolution=self._resolution(sizes))

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
        return self._batches(data_dir, batch_size, seed, start_step, **options)

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
        return self._batches(data_dir, batch_size, seed, start_step, parts=parts, regions=regions)

    def _resolution(self, sizes: Grid) -> str | None:
        """Returns the resolution that the records must have; None if the samples are patches."""
        return None if self.patches else format_grid(sizes)

    def _batches(self, *args: object, **options: object) -> Iterator[dict]:
        return training_batches(
            *args,
            **options,
            spacing=self.spacing,
            window=self.window,
            augmentation=self.augmentation,
            intensities=self.intensities,
            patches=self.patches,
        )
