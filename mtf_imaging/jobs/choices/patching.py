"""The largest patch that fits on the devices, with its batch and layout.

The sizes follow nnU-Net: a patch has the shape of the volume, it shrinks along its longest axis until a batch of two
fits, and all levels of its network divide it evenly.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.sampling.grid import Grid, format_grid
from mtf_imaging.data.sampling.sampling import Spacing
from mtf_imaging.jobs.choices import Choice
from mtf_imaging.jobs.choices.fitting import Fitted, Search, Variant
from mtf_imaging.jobs.choices.network import FILTERS, NNUNET, batch_sizes, choose_levels
from mtf_imaging.jobs.choices.recipe import choose_steps
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.search.search import Found, Searched

FEWEST_VOXELS = 32  # minimum along an axis of a patch, unless the volume has fewer voxels
_USUAL_VOXELS = 64  # minimum for the widest network
_BATCH = 2  # patches, nnU-Net's smallest batch


class _Attempt(NamedTuple):
    """The requirements on a patch.

    Attributes:
      filters: filters of the first level of the network.
      batch_size: patches in a step.
      recompute: whether activations may be recomputed.
      least: the fewest voxels of a patch along an axis, unless the volume has fewer.
    """

    filters: int
    batch_size: int
    recompute: bool
    least: int


# The first attempt that succeeds counts. Small patches lose more than fewer filters do.
_ATTEMPTS = (
    _Attempt(FILTERS[0], _BATCH, False, _USUAL_VOXELS),
    _Attempt(FILTERS[0], _BATCH, True, _USUAL_VOXELS),
    _Attempt(FILTERS[-1], _BATCH, True, FEWEST_VOXELS),
    _Attempt(FILTERS[-1], 1, True, FEWEST_VOXELS),
)


def fit_patch(
    fingerprint: Fingerprint,
    spacing: Choice,
    grid: Choice,
    search: Search,
    hardware: Hardware,
    note: Callable[[str], None],
) -> tuple[Fitted | None, tuple[Variant, int] | None]:
    """Returns the step with the largest patch that fits at a spacing.

    Args:
      fingerprint: the data set.
      spacing: the voxel size.
      grid: the voxels of the volumes.
      search: a function that ranks the layouts of a step.
      hardware: the kind of device, for the available memory.
      note: a function that is called with a line about each step that is tried.

    Returns:
      The step, or None if no patch fits; and the smallest step that does not fit, with its bytes per device.
    """
    smallest = None
    for attempt in _ATTEMPTS:
        failed: list[tuple[Variant, int]] = []
        sizes = list(patch_sizes(grid.value, spacing.value, attempt.least))
        for patch in sizes:
            is_last = attempt == _ATTEMPTS[-1] and patch == sizes[-1]  # its memory is in the error message
            variant = Variant(spacing.value, grid.value, attempt.filters, attempt.batch_size, patch)
            limit = hardware.usable_memory
            if not is_last and any(_scaled(memory, variant, other) > limit for other, memory in failed):
                continue
            note(f"patch {format_grid(patch)}, {attempt.filters} filters")
            searched = search(variant)
            found = _best(searched, attempt.recompute)
            if found is not None:
                return _fitted(fingerprint, spacing, grid, variant, found, search, note), smallest
            tried = [one.plan.memory for one in searched.found if attempt.recompute or not one.recompute]
            if tried:
                failed.append((variant, min(tried)))
        smallest = min([*failed, *([smallest] if smallest else [])], key=lambda pair: pair[1], default=None)
    return None, smallest


def patch_sizes(grid: Grid, spacing: Spacing, least: int) -> Iterator[Grid]:
    """Yields the sizes of patches to try, from the largest down.

    Each size is smaller than the previous one along the axis of which the patch covers the largest share. An axis that
    the patch does not cut keeps its size; all levels of the network have even sizes along the others.

    >>> list(patch_sizes((96, 96, 40), (1.0, 1.0, 2.0), 64))
    [(80, 96, 40), (80, 80, 40), (64, 80, 40), (64, 64, 40)]

    Args:
      grid: voxels of the volume along x, y and z.
      spacing: voxel size in mm.
      least: the fewest voxels of a patch along an axis, unless the volume has fewer.
    """
    patch = grid
    while True:
        axes = [axis for axis in range(3) if _smaller(patch, axis, spacing, least) is not None]
        if not axes:
            return
        axis = max(axes, key=lambda axis: (patch[axis] / grid[axis], patch[axis], -axis))
        patch = _with_size(patch, axis, _smaller(patch, axis, spacing, least) or least)
        yield patch


def _smaller(patch: Grid, axis: int, spacing: Spacing, least: int) -> int | None:
    """Returns the next smaller even size of a patch along an axis, or None if there is none."""
    for size in range(patch[axis] - 1, least - 1, -1):
        if size % choose_levels(_with_size(patch, axis, size), spacing).strides[axis] == 0:
            return size
    return None


def _with_size(patch: Grid, axis: int, size: int) -> Grid:
    x, y, z = (size if other == axis else own for other, own in enumerate(patch))
    return x, y, z


def _scaled(memory: int, variant: Variant, other: Variant) -> float:
    """Returns the bytes of a step if its weights and halos shrank with the patch, too."""
    return memory * math.prod(variant.sizes) / math.prod(other.sizes)


def _best(searched: Searched, recompute: bool) -> Found | None:
    return next((one for one in searched.found if one.fits and (recompute or not one.recompute)), None)


def _fitted(
    fingerprint: Fingerprint,
    spacing: Choice,
    grid: Choice,
    variant: Variant,
    found: Found,
    search: Search,
    note: Callable[[str], None],
) -> Fitted:
    """Returns the step with the largest batch that fits without recomputation."""
    num_cases, volume, own = len(fingerprint.cases), math.prod(variant.grid), math.prod(variant.sizes)
    size, reason = variant.batch_size, f"the smallest of {NNUNET}, so that the patch is as large as possible"
    if size < _BATCH:
        reason = f"even {_BATCH} of the smallest patches do not fit"
    elif not found.recompute:
        for larger in batch_sizes(num_cases * volume // own):
            if larger <= size:
                break
            note(f"batch of {larger}")
            best = _best(search(dataclasses.replace(variant, batch_size=larger)), recompute=False)
            if best is not None:
                size, found = larger, best
                reason = f"the largest that fits, with at most 5% of the voxels of all cases ({NNUNET})"
                break
    kept = "recomputed" if found.recompute else "all"
    fewer = "" if variant.filters == FILTERS[0] else f" and {variant.filters} filters"
    patch = Choice(
        variant.sizes,
        f"the largest with the shape of the volume that fits in a batch of {variant.batch_size} with {kept} "
        f"activations{fewer}; {100 * own / volume:.2g}% of a volume ({NNUNET})",
    )
    steps = choose_steps(num_cases, size, variant.grid, variant.sizes)
    return Fitted(spacing, grid, variant.filters, Choice(size, reason), steps, found, patch)
