"""All layouts that use a number of devices: every way to part it into factors, one for each dimension."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

_MESH_NAMES = ("rows", "cols", "planes")
BATCH = "batch"


class Candidate(NamedTuple):
    """A mesh shape and a layout, as strings."""

    mesh_shape: str
    layout: str


def candidates(num_devices: int, spatial: Sequence[str]) -> Iterator[Candidate]:
    """Yields the layouts of that many processors that split the batch and spatial dimensions.

    >>> list(candidates(2, ["x"]))
    [Candidate(mesh_shape='rows:2', layout='x:rows'), Candidate(mesh_shape='cores:2', layout='batch:cores')]

    Args:
      num_devices: processors, all of which are used.
      spatial: names of at most three spatial dimensions.
    """
    dims = dict(zip(spatial, _MESH_NAMES, strict=False)) | {BATCH: "cores"}
    for factors in _factors(num_devices, len(dims)):
        split = [(dim, onto, n) for (dim, onto), n in zip(dims.items(), factors, strict=True) if n > 1]
        yield Candidate(
            ",".join(f"{onto}:{n}" for _, onto, n in split), ",".join(f"{dim}:{onto}" for dim, onto, _ in split)
        )


def _factors(product, count):
    """All ordered ways to write a product as `count` factors, the largest first ones first."""
    if count == 1:
        yield (product,)
        return
    for first in range(product, 0, -1):
        if product % first == 0:
            for rest in _factors(product // first, count - 1):
                yield (first, *rest)
