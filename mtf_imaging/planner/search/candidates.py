"""The layouts that use a given number of devices.

Each layout is one way to write this number as a product with one factor per dimension.
"""

from collections.abc import Iterator, Sequence

from mtf_imaging.engine.layout import Layout

_MESH_NAMES = ("rows", "cols", "planes")
BATCH = "batch"


def candidates(num_devices: int, spatial: Sequence[str]) -> Iterator[Layout]:
    """Yields the layouts that split the batch and the spatial dimensions over all devices.

    >>> [str(layout) for layout in candidates(2, ["x"])]
    ['x:rows on rows:2', 'batch:cores on cores:2']

    Args:
      num_devices: the number of devices; each holds one processor.
      spatial: the names of up to three spatial dimensions.
    """
    dims = dict(zip(spatial, _MESH_NAMES, strict=False)) | {BATCH: "cores"}
    for factors in _factors(num_devices, len(dims)):
        split = [(dim, onto, n) for (dim, onto), n in zip(dims.items(), factors, strict=True) if n > 1]
        yield Layout(tuple((onto, n) for _, onto, n in split), tuple((dim, onto) for dim, onto, _ in split))


def _factors(product: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yields all ordered ways to write a product as `count` factors, in descending order of the first factor."""
    if count == 1:
        yield (product,)
        return
    for first in range(product, 0, -1):
        if product % first == 0:
            for rest in _factors(product // first, count - 1):
                yield (first, *rest)
