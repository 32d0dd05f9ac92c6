"""The contenders of the context study, which differ in the part of a volume that a network sees in each step."""

import dataclasses
from collections.abc import Sequence

from mtf_imaging.errors import ConfigError
from mtf_imaging.layout import ONE_PROCESSOR, Layout
from mtf_imaging.spelling import did_you_mean


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


WHOLE = "whole"
CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(WHOLE, "whole volumes, split 2 x 2", layout=Layout.parse("rows:2,cols:2", "x:rows,y:cols")),
        Contender("patch_96", "patches of up to 96 voxels", patch=96),
        Contender("patch_64", "patches of up to 64 voxels", patch=64),
        Contender("patch_32", "patches of up to 32 voxels", patch=32),
        Contender("half", "whole volumes at half resolution", coarser=2),
    )
}


def find_contenders(names: Sequence[str]) -> list[Contender]:
    """Returns the contenders with these names; `whole` first, because its CPU time is the budget of the others.

    Raises:
      ConfigError: a name is unknown, or `whole` is missing.
    """
    for name in names:
        if name not in CONTENDERS:
            raise ConfigError(
                f"contender '{name}' is not known.{did_you_mean(name, CONTENDERS)} "
                f"Fix: choose from {', '.join(CONTENDERS)}.",
                ["contenders"],
            )
    if WHOLE not in names:
        raise ConfigError(
            f"contenders {', '.join(names)}: {WHOLE} is missing, whose CPU time is the budget of all others. "
            f"Fix: add {WHOLE}.",
            ["contenders"],
        )
    return [contender for name, contender in CONTENDERS.items() if name in names]
