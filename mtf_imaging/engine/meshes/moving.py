"""Moves regions of an array between processes; each process has one region and needs another one.

Examples are halos of probabilities, the mirrored slices of a flip, and slabs that process 0 writes to a file.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from mtf_imaging.engine.layout.regions import Region, intersection, region_shape, relative_to
from mtf_imaging.files.blocks import Readable

_MESSAGE_BYTES = 16 << 20  # bytes of one message between two processes, unless one plane is larger
_WORD = 4  # bytes; rows consist of int32
# (pairs of processes, {partner: row}, size of a row) -> {partner: row}; see `Runtime.swap`
Swap = Callable[[Sequence[tuple[int, int]], Mapping[int, np.ndarray], int], dict[int, np.ndarray]]


def move(
    array: Readable,
    have: Sequence[Region],
    want: Sequence[Region],
    order: Literal["C", "F"] = "C",
    own: int = 0,
    swap: Swap | None = None,
) -> np.ndarray:
    """Returns the region of a whole array that this process needs.

    All processes call this function with the same regions. Large regions travel in slabs along the first axis, so the
    messages need little memory.

    >>> move(np.array([3, 4, 5]), [(slice(3, 6),)], [(slice(4, 5),)])
    array([4])

    Args:
      array: the region of this process, `have[own]`.
      have: the region of each process. Together they cover the whole array. Equal regions have equal elements.
      want: the region that each process needs.
      order: the memory order of the arrays.
      own: the number of this process.
      swap: the exchange between processes; None for one process.

    Returns:
      A new array, the region `want[own]`.
    """
    result = np.empty(region_shape(want[own]), array.dtype, order)
    starts, stops = (_bounds(have, end) for end in ("start", "stop"))
    for slabs in _rounds(have, want, array.dtype.itemsize):
        sizes = _sizes(starts, stops, slabs)
        sources = _sources(have, sizes)
        messages = sizes * sources
        for source in np.flatnonzero(messages[:, own]):
            if source == own:
                common = intersection(have[own], slabs[own])
                assert common is not None
                result[relative_to(common, want[own])] = array[relative_to(common, have[own])]
        np.fill_diagonal(messages, 0)
        pairs = [(int(a), int(b)) for a, b in np.argwhere(np.triu(messages + messages.T))]
        if not pairs:
            continue
        assert swap is not None, "regions of other processes need a swap"
        size = _row_size(int(messages.max()) * array.dtype.itemsize)
        rows = {}
        for partner in (sum(pair) - own for pair in pairs if own in pair):
            rows[partner] = row = np.zeros(size, np.int32)
            if messages[own, partner]:
                common = intersection(have[own], slabs[partner])
                assert common is not None
                values = array[relative_to(common, have[own])]
                _content(row, values.shape, array.dtype, order)[...] = values
        for partner, row in swap(pairs, rows, size).items():
            if messages[partner, own]:
                common = intersection(have[partner], slabs[own])
                assert common is not None
                place = result[relative_to(common, want[own])]
                place[...] = _content(row, place.shape, array.dtype, order)
    return result


def _rounds(have: Sequence[Region], want: Sequence[Region], itemsize: int) -> Iterator[list[Region]]:
    """Yields slabs of the regions that the processes need, whose messages are small; some may be empty."""
    largest = max((math.prod(region_shape(region)[1:]) for region in want), default=0)
    others = max((math.prod(region_shape(region)[1:]) for region in have), default=0)
    plane = max(1, itemsize * min(largest, others))
    planes = max(1, _MESSAGE_BYTES // plane)
    if len(have) == 1:
        planes = max(1, region_shape(want[0])[0])
    count = max(-(-(region[0].stop - region[0].start) // planes) for region in want)
    for number in range(count):
        slabs = []
        for first, *rest in want:
            start = min(first.start + number * planes, first.stop)
            slabs.append((slice(start, min(start + planes, first.stop)), *rest))
        yield slabs


def _bounds(regions: Sequence[Region], end: str) -> np.ndarray:
    return np.array([[getattr(part, end) for part in region] for region in regions])


def _sizes(starts: np.ndarray, stops: np.ndarray, want: Sequence[Region]) -> np.ndarray:
    """Returns the number of elements that each region and each wanted region share, `[have, want]`."""
    first = np.maximum(starts[:, None], _bounds(want, "start"))
    last = np.minimum(stops[:, None], _bounds(want, "stop"))
    return np.prod(np.maximum(last - first, 0), axis=-1)


def _sources(have: Sequence[Region], sizes: np.ndarray) -> np.ndarray:
    """Chooses which process sends to which, bool `[source, target]`, if several processes have the same region.

    A process that already has an element does not need a message.
    """
    owners: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for number, region in enumerate(have):
        owners.setdefault(tuple((part.start, part.stop) for part in region), []).append(number)
    chosen = np.zeros(sizes.shape, bool)
    for same in owners.values():
        for target in range(sizes.shape[1]):
            chosen[target if target in same else same[target % len(same)], target] = True
    return chosen & (sizes > 0)


def _row_size(nbytes: int) -> int:
    """Returns the number of int32 values in a row: a power of two, because each size is compiled."""
    return 1 << (-(-nbytes // _WORD) - 1).bit_length()


def _content(row: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, order: Literal["C", "F"]) -> np.ndarray:
    """Returns the array whose bytes are at the start of a row, as a view."""
    nbytes = dtype.itemsize * math.prod(shape)
    return row.view(np.uint8)[:nbytes].view(dtype).reshape(shape, order=order)
