"""Search for the largest cube that a number of devices can train."""

import math
from collections.abc import Callable, Sequence

from mtf_imaging.engine.layout import Layout
from mtf_imaging.planner.search.equal import equal_layouts
from mtf_imaging.planner.search.search import Found, Searched

STEP = 16  # voxels; other sizes give uneven slices at the coarse levels of most networks
_SIZES = (128, 256, 512, 1024, 64, 32, 16)  # starting sizes, tried in this order until a layout fits
_FEW = 4
_MARGIN = 1.15  # halos take a larger share of small cubes, so their memory per voxel underestimates the largest size


def largest_cube(
    search_at: Callable[[int, Sequence[Layout], int | None], Searched], every: Sequence[Layout], memory: float
) -> tuple[int, Found] | None:
    """Finds the largest multiple of 16 voxels at which a layout fits, and the fastest layout at this size.

    Memory grows with the number of voxels, so the memory of a small cube gives a first guess. From there, the search
    tries the layouts that need the least memory, one of each group of equal layouts.

    Args:
      search_at: a function (size, layouts, limit) -> `Searched`; it ranks up to `limit` layouts, or all if None.
      every: the layouts to try.
      memory: bytes that a program can use on each device.

    Returns:
      (size, layout), or None if even the smallest cube does not fit.
    """
    for begin in _SIZES:
        searched = search_at(begin, every, None)
        if searched.best:
            break
    else:
        return None
    by_memory = sorted((equal[0] for equal in equal_layouts(searched)), key=lambda found: found.plan.memory)
    order = list(dict.fromkeys([*(found.layout for found in by_memory), *every]))
    guess = begin * (memory / by_memory[0].plan.memory) ** (1 / 3)
    size = max(begin, int(guess * _MARGIN) // STEP * STEP)
    while size > begin and not search_at(size, order, _FEW).best:
        size -= STEP
    while search_at(size + STEP, order, _FEW).best:  # the guess may still be too low
        size += STEP
    return size, search_at(size, every, None).best


def largest_size(need: Callable[[int], float]) -> int | None:
    """Returns the largest multiple of 16 voxels that needs at most 1; None if even 16 voxels need more.

    Args:
      need: a function from a size to the share of the memory that a cube of this size needs.
    """
    fits, fails, size = 0, math.inf, _SIZES[0]
    while True:
        share = need(size)
        if share <= 1:
            fits = size
        else:
            fails = size
        if fails - fits <= STEP:
            return fits or None
        guess = size * share ** (-1 / 3) if math.isfinite(share) else (fits + size) / 2
        size = int(min(max(guess // STEP * STEP, fits + STEP), fails - STEP))
