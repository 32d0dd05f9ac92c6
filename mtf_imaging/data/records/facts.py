"""The facts about a case that its record stores in addition to the voxels."""

from dataclasses import dataclass

import numpy as np

from mtf_imaging.data.intensities.statistics import ChannelStatistics
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import Spacing


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
      is_cropped: whether the canonical volume is only the box of the image's nonzero voxels.
    """

    key: str
    affine: np.ndarray
    shape: Grid
    spacing: Spacing
    sampled_at: Spacing | None
    axis_codes: str
    source: str
    statistics: tuple[ChannelStatistics, ...] = ()
    is_cropped: bool = False
