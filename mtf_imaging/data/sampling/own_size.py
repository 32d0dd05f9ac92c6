"""A grid for each volume, which keeps its size."""

import dataclasses
import math

from mtf_imaging.data.sampling import nnunet
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import BOX_MULTIPLE, Sampling, Spacing, Spans, format_spacing, voxels_to_cover


@dataclasses.dataclass(frozen=True)
class OwnSize:
    """The smallest grid that covers a volume, for networks that compute images of any size.

    Attributes:
      spacing: voxel size in mm along x, y, z; 0 along an axis, or None, for the voxels of the volume.
      multiple: all sizes are multiples of this number.
      least: the smallest size along x, y, z.
      follows_nnunet: whether volumes are cropped to their nonzero voxels, normalized, and then resampled with the sizes
        and the interpolation of nnU-Net; see `nnunet.sampling`.
      reversed_axes: the axes that the network sees in the opposite direction, for nnU-Net.
    """

    spacing: Spacing | None = None
    multiple: int = BOX_MULTIPLE
    least: tuple[int, ...] = (1, 1, 1)
    follows_nnunet: bool = False
    reversed_axes: tuple[int, ...] = ()

    grids = ()  # they are not known before the volumes

    def __str__(self) -> str:
        """Formats the sampling for messages.

        >>> print(OwnSize((1.5, 1.5, 2.0)))
        the size of each volume of 1.5,1.5,2 mm
        """
        return "the size of each volume" + (f" of {format_spacing(self.spacing)} mm" if self.spacing else "")

    def choose(self, shape: Grid, spacing: Spacing) -> Sampling:
        """Returns the sampling of one volume.

        >>> OwnSize((2.0, 2.0, 2.0)).choose((70, 40, 20), (1.0, 1.0, 2.0)).grid
        (48, 32, 32)

        Args:
          shape: size of the volume in voxels along x, y, z.
          spacing: voxel size of the volume in mm.
        """
        own = tuple(mm or mine for mm, mine in zip(self.spacing or spacing, spacing, strict=True))
        if self.follows_nnunet:
            return nnunet.sampling(shape, spacing, own, self._grid, self.reversed_axes)
        return Sampling(self._grid(voxels_to_cover(shape, spacing, own)), own)

    def _grid(self, needed: Grid) -> Grid:
        return tuple(math.ceil(max(pair) / self.multiple) * self.multiple for pair in zip(needed, self.least))

    def spans(self, shape: Grid, spacing: Spacing) -> Spans:
        """Returns the position of a volume's grid within the volume; see `Sampling.spans`."""
        return self.choose(shape, spacing).spans(shape, spacing)
