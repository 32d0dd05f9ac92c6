"""Several grids for cases of different sizes: each case gets the smallest grid that covers it."""

import collections
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mtf_imaging.data.sampling.grid import AXIS_NAMES, Grid, format_grid, parse_grid
from mtf_imaging.data.sampling.own_size import OwnSize
from mtf_imaging.data.sampling.sampling import (
    BOX_MULTIPLE,
    Sampling,
    Spacing,
    Spans,
    format_spacing,
    parse_spacing,
    smallest_box,
    voxels_to_cover,
)
from mtf_imaging.errors import DataError

_SEPARATOR = "|"
# Up to this number of different sizes, all possible groupings are tried. If there are more sizes, some are merged
# first.
_MOST_SIZES = 9


@dataclass(frozen=True)
class Samplings:
    """Several grids with one spacing, called buckets, for cases of different sizes.

    Attributes:
      grids: size of each grid in voxels along x, y, z; in order of increasing total number.
      spacing: voxel size in mm along x, y, z.
    """

    grids: tuple[Grid, ...]
    spacing: Spacing
    follows_nnunet = False  # see `OwnSize`

    def __str__(self) -> str:
        """Formats the grids for messages.

        >>> print(Samplings(((96, 96, 64), (192, 192, 96)), (1.5, 1.5, 2.0)))
        x:96,y:96,z:64|x:192,y:192,z:96 of 1.5,1.5,2 mm
        """
        return f"{format_grids(self.grids)} of {format_spacing(self.spacing)} mm"

    def choose(self, shape: Grid, spacing: Spacing) -> Sampling:
        """Returns the sampling of one volume: the smallest grid that covers it, else the grid that covers most of it.

        >>> str(Samplings(((4, 4, 4), (8, 8, 8)), (1.0, 1.0, 1.0)).choose((4, 3, 5), (1.0, 1.0, 1.0)))
        'x:8,y:8,z:8 of 1,1,1 mm'

        Args:
          shape: size of the volume in voxels along x, y, z.
          spacing: voxel size of the volume in mm.
        """
        needed = voxels_to_cover(shape, spacing, self.spacing)

        def rank(grid: Grid) -> tuple[int, int]:
            return -math.prod(map(min, grid, needed)), math.prod(grid)

        return Sampling(min(self.grids, key=rank), self.spacing)

    def spans(self, shape: Grid, spacing: Spacing) -> Spans:
        """Returns the position of a volume's grid within the volume; see `Sampling.spans`."""
        return self.choose(shape, spacing).spans(shape, spacing)


AnySampling = Sampling | Samplings | OwnSize


def make_sampling(grids: Iterable[Grid], spacing: Spacing | None) -> AnySampling:
    """Returns a `Sampling` for one grid, or `Samplings` for several.

    Raises:
      DataError: there are several grids but no spacing.
    """
    ordered = sorted({*map(tuple, grids)}, key=lambda grid: (math.prod(grid), grid))
    if len(ordered) == 1:
        return Sampling(ordered[0], spacing)
    if spacing is None:
        what = f"resolution '{format_grids(ordered)}': several grids need a spacing, which decides the grid of a volume"
        raise DataError(f"{what}. Fix: give spacing, too, or one grid.", ["resolution", "spacing"])
    return Samplings(tuple(ordered), spacing)


def parse_any_sampling(resolution: str | int, spacing: str | float | Iterable[float] | None = None) -> AnySampling:
    """Parses a spacing and a resolution that may consist of several grids, separated by `|`.

    >>> print(parse_any_sampling("x:192,y:192,z:96|64", "1.5,1.5,2"))
    x:64,y:64,z:64|x:192,y:192,z:96 of 1.5,1.5,2 mm
    """
    return make_sampling(parse_grids(resolution), parse_spacing(spacing))


def parse_grids(resolution: str | int, dims: int = 3, names: Sequence[str] = AXIS_NAMES) -> tuple[Grid, ...]:
    """Parses one or several grids separated by `|`; returns them in order of increasing number of voxels.

    Args:
      resolution: the grids, each in the format of `parse_grid`.
      dims: number of spatial dimensions.
      names: the dimension names.
    """
    grids = {parse_grid(text, dims, names) for text in str(resolution).split(_SEPARATOR)}
    return tuple(sorted(grids, key=lambda grid: (math.prod(grid), grid)))


def format_grids(grids: Iterable[Iterable[int]]) -> str:
    """Formats one or several grids as a resolution for `parse_grids`."""
    return _SEPARATOR.join(map(format_grid, grids))


def choose_grids(
    volumes: Iterable[tuple[Grid, Spacing]], spacing: Spacing, count: int, multiple: int = BOX_MULTIPLE
) -> tuple[Grid, ...]:
    """Returns at most `count` grids that cover all volumes, with few voxels of padding in total.

    If the volumes have at most 9 different sizes after rounding up, the result has the least possible padding.
    Otherwise, the sizes whose common grid adds the least padding are merged until 9 are left.

    >>> choose_grids([((30, 30, 30), (1.0,) * 3), ((60, 40, 90), (1.0,) * 3)], (1.0,) * 3, 2)
    ((32, 32, 32), (64, 48, 96))

    Args:
      volumes: (shape, spacing in mm) of each volume.
      spacing: voxel size of the grids in mm.
      count: the largest number of grids.
      multiple: all sizes are multiples of this number.

    Returns:
      The grids in order of increasing number of voxels. Each one is the smallest grid for at least one volume.
    """
    sizes = collections.Counter(smallest_box([volume], spacing, multiple) for volume in volumes)
    groups = _merge([((size,), number) for size, number in sorted(sizes.items())], max(count, _MOST_SIZES))
    boxes, numbers = [_box(group) for group, _ in groups], [number for _, number in groups]
    costs: dict[tuple[int, ...], int] = {}

    def cost(members: tuple[int, ...]) -> int:
        if members not in costs:
            box = _box([boxes[member] for member in members])
            costs[members] = math.prod(box) * sum(numbers[member] for member in members)
        return costs[members]

    parts = min(_partitions(len(groups), count), key=lambda parts: sum(map(cost, parts)))
    grids = {_box([boxes[member] for member in part]) for part in parts}
    while True:  # after merging, a size in one group may fit into the smaller grid of another group
        by_grid = collections.defaultdict(list)
        for size in sizes:
            by_grid[min((g for g in grids if _covers(g, size)), key=lambda g: (math.prod(g), g))].append(size)
        smaller = {_box(group) for group in by_grid.values()}
        if smaller == grids:
            return tuple(sorted(grids, key=lambda grid: (math.prod(grid), grid)))
        grids = smaller


def _box(sizes: Iterable[Grid]) -> Grid:
    """Returns the smallest grid that covers several grids."""
    return functools.reduce(lambda a, b: tuple(map(max, a, b)), sizes)


def _covers(grid: Grid, size: Grid) -> bool:
    return all(g >= s for g, s in zip(grid, size, strict=True))


_Group = tuple[tuple[Grid, ...], int]  # different sizes, and the number of volumes with one of them


def _merge(groups: list[_Group], count: int) -> list[_Group]:
    """Merges the two groups whose common grid adds the least padding, until `count` groups are left."""
    import numpy as np  # slow to import, and only needed by conversions

    groups = list(groups)
    boxes = np.array([_box(sizes) for sizes, _ in groups], np.float64)
    numbers = np.array([number for _, number in groups], np.float64)

    def added(box: "np.ndarray", number: float) -> "np.ndarray":
        """Returns the padding added by a common grid of one group and each of the groups."""
        alone, others = box.prod() * number, boxes.prod(1) * numbers
        return np.maximum(boxes, box).prod(1) * (numbers + number) - alone - others

    costs = np.array([added(box, number) for box, number in zip(boxes, numbers, strict=True)])
    while len(groups) > count:
        costs[np.diag_indices(len(groups))] = np.inf
        first, second = sorted(np.unravel_index(np.argmin(costs), costs.shape))
        (sizes, number), (others, other_number) = groups[first], groups.pop(second)
        groups[first] = sizes + others, number + other_number
        boxes[first], numbers[first] = np.maximum(boxes[first], boxes[second]), number + other_number
        boxes, numbers = np.delete(boxes, second, 0), np.delete(numbers, second)
        costs = np.delete(np.delete(costs, second, 0), second, 1)
        costs[first] = costs[:, first] = added(boxes[first], numbers[first])
    return groups


def _partitions(number: int, count: int) -> Iterator[Sequence[tuple[int, ...]]]:
    """Yields all partitions of the numbers below `number` into at most `count` sets."""
    if number == 0:
        yield ()
        return
    last = number - 1
    for parts in _partitions(last, count):
        for at in range(len(parts)):
            yield (*parts[:at], (*parts[at], last), *parts[at + 1 :])
        if len(parts) < count:
            yield (*parts, (last,))


def padding(volumes: Iterable[tuple[Grid, Spacing]], sampling: AnySampling) -> float:
    """Returns the fraction of grid voxels that lie beyond their volumes.

    >>> padding([((8, 8, 8), (1.0, 1.0, 1.0))], Sampling((16, 8, 8), (1.0, 1.0, 1.0)))
    0.5

    Args:
      volumes: (shape, spacing in mm) of each volume.
      sampling: the grids and their spacing.
    """
    covered = total = 0
    for shape, mm in volumes:
        grid = sampling.choose(shape, mm).grid
        covered += math.prod(map(min, grid, voxels_to_cover(shape, mm, sampling.spacing)))
        total += math.prod(grid)
    return 1 - covered / total


def group_by_grid(grids: Sequence[Grid]) -> dict[Grid, list[int]]:
    """Returns {grid: its positions in a sequence}, in order of increasing number of voxels.

    >>> group_by_grid([(8, 8, 8), (4, 4, 4), (8, 8, 8)])
    {(4, 4, 4): [1], (8, 8, 8): [0, 2]}
    """
    ordered = sorted(range(len(grids)), key=lambda at: (math.prod(grids[at]), grids[at], at))
    return {grid: list(group) for grid, group in itertools.groupby(ordered, key=grids.__getitem__)}
