"""The image and labels of one converted case, whole in memory."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.intensities import ChannelStatistics, Intensity
from mtf_imaging.data.network_input import apply_intensities
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import Sampling, Spacing


@dataclass(frozen=True)
class Facts:
    """The facts about a case that its record stores in addition to the voxels.

    Attributes:
      key: key of the case.
      affine: `[4, 4]` float64, voxel index -> mm in RAS+ of the canonical volume, before resampling.
      shape: size of the canonical volume in voxels along x, y, z, before resampling.
      spacing: voxel size of the canonical volume in mm, before resampling.
      sampled_at: voxel size of the grid in mm, or None if the grid spans the whole field of view.
      axis_codes: direction of each stored axis of the volume's file, for example `LPS`.
      source: digest of the source files' contents.
      statistics: the distribution of each channel in the whole case, before resampling; empty for LiTS.
    """

    key: str
    affine: np.ndarray
    shape: Grid
    spacing: Spacing
    sampled_at: Spacing | None
    axis_codes: str
    source: str
    statistics: tuple[ChannelStatistics, ...] = ()


@dataclass(frozen=True)
class Record:
    """A converted case.

    A record of a single CT stores Hounsfield units as int16. Any other record stores the values of all channels as
    float32, before their intensity schemes are applied, and the statistics that these schemes need.

    Attributes:
      key: key of the case.
      hu: int16 `[x, y, z]` on the grid, Hounsfield units; None if the record has `values` instead.
      labels: uint8 `[x, y, z]` on the grid.
      affine, shape, spacing, sampled_at, axis_codes, source, statistics: the attributes of `Facts`.
      values: float32 `[x, y, z, channels]` on the grid; None if the record has `hu` instead.
    """

    key: str
    hu: np.ndarray | None
    labels: np.ndarray
    affine: np.ndarray
    shape: Grid
    spacing: Spacing
    sampled_at: Spacing | None
    axis_codes: str
    source: str
    values: np.ndarray | None = None
    statistics: tuple[ChannelStatistics, ...] = ()

    @classmethod
    def from_parts(cls, facts: Facts, image: np.ndarray, labels: np.ndarray) -> "Record":
        """Creates a record.

        Args:
          facts: the facts about the case.
          image: int16 `[x, y, z]` of Hounsfield units, or float32 `[x, y, z, channels]`.
          labels: uint8 `[x, y, z]`.
        """
        has_hu = image.ndim == 3
        return cls(hu=image if has_hu else None, values=None if has_hu else image, labels=labels, **vars(facts))

    @property
    def facts(self) -> Facts:
        """The facts about the case, without the voxels."""
        return Facts(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Facts)})

    @property
    def image(self) -> np.ndarray:
        """The stored image, int16 `[x, y, z]` of Hounsfield units or float32 `[x, y, z, channels]`."""
        image = self.hu if self.values is None else self.values
        assert image is not None, "a record has either HU or values"
        return image

    @property
    def sampling(self) -> Sampling:
        """Resolution and spacing of the record."""
        return Sampling(self.labels.shape, self.sampled_at)

    @property
    def num_channels(self) -> int:
        """Number of channels in the image."""
        return 1 if self.values is None else self.values.shape[3]

    def network_input(self, intensities: Sequence[Intensity]) -> np.ndarray:
        """Returns the image as network input, float32 `[x, y, z, channels]`.

        Args:
          intensities: the intensity scheme of each channel.
        """
        values = self.image[..., np.newaxis] if self.values is None else self.values
        return apply_intensities(values, intensities, self.statistics)
