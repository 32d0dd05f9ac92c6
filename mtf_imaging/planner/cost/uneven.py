"""The effects of uneven slices on a step: wasted work and growing halos."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import Layout, Slices, parse_shape
from mtf_imaging.engine.layout.windows import SplitPlan, Window, plan_split
from mtf_imaging.planner.cost.plan import Plan

LIMIT = 0.25  # share of wasted work above which a report suggests another size


@dataclasses.dataclass(frozen=True)
class GrowingHalo:
    """A window whose halo grows from slice to slice, to more than half a slice.

    A slice of the input has m voxels, and a slice of the result has q windows. If m is not the stride times q, the
    windows of each slice begin at a different offset.

    Attributes:
      name: the operation name.
      kind: the kind of the operation.
      dim: the name of the dimension.
      mesh_dim: the mesh dimension that splits it.
      window: the window.
      whole: number of voxels along the dimension.
      split: the voxels that each slice needs.
      better: the nearest sizes of the image along the dimension, below and above its size, at which no halo grows.
        Empty if there are none.
    """

    name: str
    kind: str
    dim: str
    mesh_dim: str
    window: Window
    whole: int
    split: SplitPlan
    better: tuple[int, ...] = ()

    @property
    def halo(self) -> int:
        """Voxels of the widest side of the halo."""
        return max(self.split.before, self.split.after)

    def __str__(self) -> str:
        split, outputs = self.split, self.window.output_size(self.whole)
        return (
            f"{self.kind} '{self.name}' splits {self.dim} over {self.mesh_dim}:{split.parts}: {self.whole} voxels into "
            f"slices of {split.size}, and with stride {split.stride} its {outputs} outputs into slices of "
            f"{split.outputs}. {split.size} is not {split.stride} x {split.outputs}, so halos grow along "
            f"{self.mesh_dim}, up to {self.halo} voxels"
        )


@dataclasses.dataclass(frozen=True)
class Unevenness:
    """The effects of uneven slices on a step.

    Attributes:
      image: {dimension: size} of the image.
      growing: for each dimension, the operation with the widest growing halo.
      better: {dimension of the image: nearest size} at which at most `LIMIT` of the work is wasted; empty if less is
        already wasted, or if there is no such size.
    """

    image: Mapping[str, int]
    growing: tuple[GrowingHalo, ...]
    better: Mapping[str, int] = dataclasses.field(default_factory=dict)


def growing_halos(
    operations: Sequence[mtf.Operation], layout: Layout, image: Mapping[str, int]
) -> tuple[GrowingHalo, ...]:
    """Returns, for each dimension, the operation with the widest growing halo.

    Args:
      operations: the operations of the forward pass.
      layout: the layout.
      image: {dimension: size} of the image.
    """
    widest: dict[str, GrowingHalo] = {}
    strided: dict[str, set[tuple[Window, int]]] = collections.defaultdict(set)
    parts, rules = layout.slices_per_dimension, dict(layout.rules)
    for op in operations:
        geometry = getattr(op, "geometry", None)
        for dim, window, size in zip(geometry.names, geometry.windows, geometry.sizes) if geometry else ():
            if parts.get(dim, 1) == 1 or rules[dim] in layout.sequential:  # a turn reads no more than its windows
                continue
            if window.stride > 1:
                strided[dim].add((window, size))
            growing = GrowingHalo(op.name, op.kind, dim, rules[dim], window, size, plan_split(window, size, parts[dim]))
            if len(set(growing.split.starts)) == 1 or 2 * growing.halo <= growing.split.size:
                continue
            if dim not in widest or growing.halo > widest[dim].halo:
                widest[dim] = growing
    return tuple(
        dataclasses.replace(growing, better=_nearest(image[dim], strided[dim], parts[dim]) if dim in image else ())
        for dim, growing in widest.items()
    )


def _nearest(image: int, windows: Collection[tuple[Window, int]], parts: int) -> tuple[int, ...]:
    """Returns the nearest image sizes, below and above, without empty slices and growing halos."""

    def agrees(size: int) -> bool:
        if Slices(size, parts).empty:
            return False
        for window, now in windows:
            whole = -(-size // max(1, round(image / now)))  # the size of the window's level
            outputs = window.output_size(whole)
            if outputs < 1 or Slices(whole, parts).size != window.stride * Slices(outputs, parts).size:
                return False
        return True

    every = range(image - 1, 0, -1), range(image + 1, 2 * image + 1)
    return tuple(size for sizes in every for size in itertools.islice(filter(agrees, sizes), 1))


def better_sizes(plan: Plan, image: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yields image sizes that waste an estimated `LIMIT` of the work at most, nearest sizes first.

    The estimate assumes that all levels of the network scale with the image.

    Args:
      plan: the plan of a step.
      image: {dimension: size} of the image.
    """
    parts = {dim: n for dim, n in plan.layout.slices_per_dimension.items() if dim in image and n > 1}
    work: dict[tuple[tuple[str, int], ...], int] = collections.Counter()
    for op in plan.ops:
        if op.phase == "forward":
            work[tuple(pair for pair in parse_shape(op.whole) if pair[0] in parts)] += op.useful_flops

    def stored(sizes: Mapping[str, int]) -> float:
        """Returns the ratio of stored work to useful work."""
        total = 0.0
        for shape, flops in work.items():
            scaled = {dim: max(1, -(-size * sizes[dim] // image[dim])) for dim, size in shape}
            total += flops * math.prod(Slices(size, parts[dim]).stored_ratio for dim, size in scaled.items())
        return total / sum(work.values())

    sizes, most = dict(image), 1 / (1 - LIMIT)
    if not sum(work.values()):
        return
    for dim in sorted(parts, key=lambda dim: -Slices(image[dim], parts[dim]).stored_ratio):
        near = sorted(range(1, 2 * image[dim] + 1), key=lambda size: (abs(size - image[dim]), size))
        ratios = {size: stored(sizes | {dim: size}) for size in near}
        enough = [size for size in near if ratios[size] <= most]
        if enough:
            changed = {other: size for other, size in sizes.items() if size != image[other]}
            yield from (changed | {dim: size} for size in enough)
            return
        sizes[dim] = min(near, key=lambda size: (round(ratios[size], 3), abs(size - image[dim])))
