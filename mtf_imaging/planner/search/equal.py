"""Ranked layouts that differ only by swapping axes of equal size."""

import dataclasses
from collections.abc import Mapping

from mtf_imaging.engine.layout import Layout
from mtf_imaging.planner.cost.plan import OpCost, Plan
from mtf_imaging.planner.search.search import BATCH, Found, Searched


def equal_layouts(searched: Searched) -> list[tuple[Found, ...]]:
    """Groups the ranked layouts that differ only by swapped axes.

    Two layouts are equal if they split dimensions of the same size over the same mesh, and if each operation has the
    same cost and sends the same messages under both. The plans decide, because a network may treat dimensions of the
    same size differently: it may have different kernels, pools or strides, or an operation along one of them.

    Args:
      searched: the result of a search.

    Returns:
      The groups, in the order of their first layouts.
    """
    groups: list[list[Found]] = []
    for found in searched.found:
        group = next((group for group in groups if _are_equal(group[0], found, searched.sizes)), None)
        if group is None:
            groups.append([found])
        else:
            group.append(found)
    return [tuple(group) for group in groups]


def split_axes(layout: Layout) -> tuple[str, ...]:
    """Returns the spatial dimensions that a layout splits, in the order of its mesh."""
    return tuple(dim for dim, _ in layout.rules if dim != BATCH)


def _are_equal(one: Found, other: Found, sizes: Mapping[str, int]) -> bool:
    return (
        one.recompute == other.recompute
        and _splits(one.layout, sizes) == _splits(other.layout, sizes)
        and (one.plan.memory, one.time) == (other.plan.memory, other.time)
        and _op_costs(one.plan) == _op_costs(other.plan)
    )


def _splits(layout: Layout, sizes: Mapping[str, int]) -> list[tuple[bool, int, int]]:
    """Returns (is batch, size, number of slices) for each split dimension."""
    return [(dim == BATCH, sizes[dim], n) for dim, n in layout.slices_per_dimension.items()]


def _op_costs(plan: Plan) -> list[OpCost]:
    """Returns the operation costs without the fields that distinguish the dimensions."""
    return [dataclasses.replace(op, slice=(), halo={}) for op in plan.ops]
