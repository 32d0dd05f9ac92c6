"""The contenders, which differ in the part of a volume that a network sees in each step."""

import dataclasses
from collections.abc import Sequence

from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to train the network.

    Attributes:
      name: the name in tables and on the command line.
      title: the part of a volume that the network sees in each step.
      patch: voxels of a patch along each axis, at most as many as in the volume; None for whole volumes.
      coarser: factor by which the voxel size grows along each axis.
      layout: the layout of the step.
    """

    name: str
    title: str
    patch: int | None = None
    coarser: int = 1
    layout: Layout = ONE_PROCESSOR

    def patch_of(self, grid: Sequence[int]) -> tuple[int, ...] | None:
        """Returns the patch size for volumes with this grid; None for whole volumes."""
        return None if self.patch is None else tuple(min(self.patch, size) for size in grid)


WHOLE = Contender("whole", "whole volumes, split 2 x 2", layout=Layout.parse("rows:2,cols:2", "x:rows,y:cols"))
CONTENDERS = {
    contender.name: contender
    for contender in (
        WHOLE,
        Contender("patch_96", "patches of up to 96 voxels", patch=96),
        Contender("patch_64", "patches of up to 64 voxels", patch=64),
        Contender("patch_32", "patches of up to 32 voxels", patch=32),
        Contender("half", "whole volumes at half resolution", coarser=2),
    )
}
