"""The largest cube that can be trained on a number of devices."""

from collections.abc import Callable, Sequence

from mtf_imaging.layout import Layout
from mtf_imaging.planner.search.search import Found, Searched

STEP = 16  # voxels: what a U-Net that halves its input four times can halve
_SIZES = (128, 256, 512, 1024, 64, 32, 16)  # where the search begins: the first of which some layout is legal and fits
_FEW = 4
_MARGIN = 1.15  # halos are a larger part of small cubes, so that memory by the voxel leads to too small a guess


def largest_cube(
    search_at: Callable[[int, Sequence[Layout], int | None], Searched], every: Sequence[Layout], memory: float
) -> tuple[int, Found] | None:
    """The largest multiple of 16 voxels at which some layout fits, and the fastest layout there.

    Memory grows with the voxels, so that of a small cube says where to look. What is too large there is told by the
    layouts that need least.

    Args:
      search_at: a function (size, layouts, how many legal ones to look at, None for all) -> what was found.
      every: the layouts to try.
      memory: bytes that a program can have of a device.

    Returns:
      (size, layout), or None where not even the smallest fits.
    """
    for begin in _SIZES:
        searched = search_at(begin, every, None)
        if searched.best:
            break
    else:
        return None
    by_memory = sorted(searched.found, key=lambda found: found.plan.memory)
    order = list(dict.fromkeys([*(found.layout for found in by_memory), *every]))
    guess = begin * (memory / by_memory[0].plan.memory) ** (1 / 3)
    size = max(begin, int(guess * _MARGIN) // STEP * STEP)
    while size > begin and not search_at(size, order, _FEW).best:
        size -= STEP
    while search_at(size + STEP, order, _FEW).best:  # the guess may have been too low all the same
        size += STEP
    return size, search_at(size, every, None).best
