"""The network and the loss of a plan."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from mtf_imaging.data.description.description import LITS_RULES, Description
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.data.sampling.sampling import Spacing
from mtf_imaging.jobs.choices import Choice

Sizes = tuple[int, int, int]

FILTERS = (32, 16)  # the first one that fits is chosen
_COARSEST_VOXELS = 4
_MOST_LEVELS = 7
_KERNEL = 3
_CUBIC = 2  # voxels are nearly cubes if the ratio of their longest to shortest side is smaller
_MOST_PADDED = 1.1
_MOST_FILTERS, _MOST_FILTERS_2D = 320, 512
MOST = 8  # volumes in a batch
_BATCHES = (MOST, 4, 2, 1)
_SHARE_OF_CASES = 20
NNUNET = "Isensee et al. 2021"


class Levels(NamedTuple):
    """The shapes of a network's levels, from the finest to the coarsest.

    Attributes:
      kernel_sizes: sizes of the kernels along x, y and z of each level.
      pool_sizes: sizes of the pools along x, y and z between each level and the next one.
    """

    kernel_sizes: tuple[Sizes, ...]
    pool_sizes: tuple[Sizes, ...]

    @property
    def strides(self) -> Sizes:
        """The strides of the coarsest level along x, y and z."""
        x, y, z = (math.prod(pool[axis] for pool in self.pool_sizes) for axis in range(3))
        return x, y, z


def choose_levels(grid: Grid, spacing: Spacing) -> Levels:
    """Chooses kernels and pools for the shape of the voxels, as nnU-Net does (Isensee et al. 2021).

    A pool halves an axis if its voxels are less than twice as long as the shortest side, and if at least 8 voxels are
    left, which become 4. Pools therefore turn long voxels into cubes first. A pool of a single axis needs 12 voxels.
    Along an axis, kernels have 1 voxel until its voxels are less than twice as long as the shortest side, and 3 from
    that level on. The kernels of the coarsest level have 3. An axis of one voxel has neither pools nor larger kernels.

    >>> choose_levels((24, 24, 8), (0.5, 0.5, 3.0))
    Levels(kernel_sizes=((3, 3, 1), (3, 3, 1), (3, 3, 3)), pool_sizes=((2, 2, 1), (2, 2, 1)))
    >>> choose_levels((64, 64, 64), (1.0, 1.0, 1.0)).strides
    (16, 16, 16)

    Args:
      grid: number of voxels along x, y and z.
      spacing: voxel size in mm.
    """
    sizes, lengths = list(grid), list(spacing)
    axes = [axis for axis in range(3) if grid[axis] > 1]
    kernel = [1] * 3
    kernels: list[Sizes] = []
    pools: list[Sizes] = []
    while len(pools) < _MOST_LEVELS - 1:
        pooled = [axis for axis in axes if sizes[axis] >= 2 * _COARSEST_VOXELS]
        shortest = min((lengths[axis] for axis in pooled), default=0.0)
        pooled = [axis for axis in pooled if lengths[axis] < _CUBIC * shortest]
        if not pooled or (len(pooled) == 1 and sizes[pooled[0]] < 3 * _COARSEST_VOXELS):
            break
        for axis in axes:
            if lengths[axis] < _CUBIC * min(lengths[other] for other in axes):
                kernel[axis] = _KERNEL
        kernels.append(_sizes(kernel))
        pools.append(_sizes(2 if axis in pooled else 1 for axis in range(3)))
        for axis in pooled:
            sizes[axis], lengths[axis] = math.ceil(sizes[axis] / 2), 2 * lengths[axis]
    kernels.append(_sizes(_KERNEL if axis in axes else 1 for axis in range(3)))
    return Levels(tuple(kernels), tuple(pools))


def pad_to_levels(grid: Grid, spacing: Spacing) -> Grid:
    """Pads a grid to multiples of the strides of its coarsest level, if this adds at most a tenth.

    If it would add more along an axis, the multiple is half of the stride, a quarter, and so on. The levels stay the
    same: an axis is padded to a multiple of a power of 2 that its pools divide.

    >>> pad_to_levels((310, 310, 20), (0.625, 0.625, 3.6)), pad_to_levels((33, 65, 127), (1.0, 1.0, 1.0))
    ((320, 320, 20), (36, 68, 128))
    """
    padded = []
    for size, multiple in zip(grid, choose_levels(grid, spacing).strides, strict=True):
        while math.ceil(size / multiple) * multiple > _MOST_PADDED * size:
            multiple //= 2
        padded.append(math.ceil(size / multiple) * multiple)
    return _sizes(padded)


def choose_network(grid: Grid, spacing: Spacing, filters: int) -> dict[str, Choice]:
    """Chooses the network, {keyword argument of the network: choice}.

    Args:
      grid: number of voxels along x, y and z.
      spacing: voxel size in mm.
      filters: filters of the first level.
    """
    levels = choose_levels(grid, spacing)
    depth, dims = len(levels.kernel_sizes), sum(size > 1 for size in grid)
    most = _MOST_FILTERS if dims > 2 else _MOST_FILTERS_2D
    why_filters = f"as in Hou et al. 2019 and {NNUNET}"
    if filters != FILTERS[0]:
        why_filters = f"instead of {FILTERS[0]}, which do not fit"
    return {
        "base_filters": Choice(filters, why_filters),
        "max_filters": Choice(most, f"the most filters of a level, as in nnU-Net for {max(dims, 2)}-D"),
        "depth": _choose_depth(grid, levels),
        "kernel_sizes": _choose_kernels(levels),
        "pool_sizes": Choice(
            levels.pool_sizes,
            "sizes along x, y and z between two levels: 2 where voxels are less than twice as long as the shortest, "
            "and 1 otherwise, so that voxels become cubes",
        ),
        "deep_supervision": Choice(
            max(depth - 3, 0), "the number of coarser levels with logits: all but the two coarsest, as in nnU-Net"
        ),
        "norm": Choice("instance", f"a batch of few volumes is too small for statistics of the batch ({NNUNET})"),
        "dropout_rate": Choice(0.0, f"augmentation regularizes instead ({NNUNET})"),
    }


def _choose_depth(grid: Grid, levels: Levels) -> Choice:
    depth, strides = len(levels.kernel_sizes), levels.strides
    coarsest = " x ".join(str(math.ceil(size / stride)) for size, stride in zip(grid, strides, strict=True))
    if depth == _MOST_LEVELS:
        return Choice(depth, f"the most that a plan uses; the coarsest level has {coarsest} voxels")
    return Choice(
        depth, f"the coarsest level has {coarsest} voxels; pools leave at least {_COARSEST_VOXELS} along an axis"
    )


def _choose_kernels(levels: Levels) -> Choice:
    axes = [axis for axis, size in enumerate(levels.kernel_sizes[-1]) if size > 1]
    if all(kernel[axis] > 1 for kernel in levels.kernel_sizes for axis in axes):
        return Choice(levels.kernel_sizes, "no axis has voxels that are twice as long as those of another axis")
    return Choice(
        levels.kernel_sizes,
        "sizes along x, y and z of each level: 1 along an axis until its voxels are less than twice as long as the "
        f"shortest, because distant voxels share little detail ({NNUNET})",
    )


def _sizes(values: Iterable[int]) -> Sizes:
    x, y, z = values
    return x, y, z


def batch_sizes(number: int) -> list[int]:
    """Returns the batch sizes that a plan tries, largest first.

    A batch has at most 5% of all voxels, but always up to 2 volumes or patches, as in nnU-Net.

    >>> batch_sizes(3), batch_sizes(131), batch_sizes(1000)
    ([2, 1], [4, 2, 1], [8, 4, 2, 1])

    Args:
      number: the number of cases, or of patches that together have as many voxels as all cases.
    """
    most = min(number, max(2, number // _SHARE_OF_CASES))
    return [size for size in _BATCHES if size <= most]


def choose_loss(description: Description) -> dict[str, Choice]:
    """Chooses the loss, {keyword argument of the task: choice}."""
    alike = f"all labels weigh the same, as in {NNUNET}, because Dice balances them; larger weights scored lower"
    is_lits = description.rules == LITS_RULES
    loss = {"class_weights": Choice((1.0, 1.0, 1.0) if is_lits else None, f"{alike} (docs/evidence/learning.md)")}
    if is_lits:
        loss["dice"] = Choice("classes", f"the Dice of liver and of lesions, as in {NNUNET}")
    return loss | {"dice_weight": Choice(0.5, f"cross entropy and Dice count the same, as in {NNUNET}")}
