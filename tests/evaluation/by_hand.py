"""The challenge's measures once more, voxel by voxel on sets of tuples: slow, and sharing no code with the package."""

import itertools
import math


def voxels(mask):
    return {tuple(int(i) for i in index) for index in zip(*mask.nonzero(), strict=True)}


def neighbours(voxel):
    for axis, step in itertools.product(range(3), (-1, 1)):
        yield tuple(v + step * (a == axis) for a, v in enumerate(voxel))


def components(mask):
    """Sets of voxels that touch by faces, ordered by their first voxel."""
    left, found = voxels(mask), []
    while left:
        group, edge = set(), [min(left)]
        while edge:
            voxel = edge.pop()
            if voxel in left:
                left.remove(voxel)
                group.add(voxel)
                edge += neighbours(voxel)
        found.append(group)
    return sorted(found, key=min)


def surface(group, spacing):
    """Positions in mm of the voxels that have a neighbour which is not in the group."""
    border = [v for v in group if any(n not in group for n in neighbours(v))]
    return [tuple(i * mm for i, mm in zip(v, spacing, strict=True)) for v in border]


def distances(prediction, reference, spacing):
    """Of all points of one surface to the other: two lists, in mm."""
    first, second = surface(prediction, spacing), surface(reference, spacing)
    there = [min(math.dist(p, q) for q in second) for p in first]
    return there, [min(math.dist(p, q) for q in first) for p in second]


def lesions(prediction, reference):
    """Pairs (voxels predicted, voxels of the reference) after merging."""
    found, real = components(prediction), components(reference)

    def most(group, others):
        """Number of the first of the others with the largest overlap, or None."""
        shared = [len(group & other) for other in others]
        return shared.index(max(shared)) if any(shared) else None

    merged = {}
    for number, group in enumerate(real):
        best = most(group, found)
        merged.setdefault(("alone", number) if best is None else best, set()).update(group)
    merged = list(merged.values())
    pairs = [(set(), group) for group in merged]
    for group in found:
        best = most(group, merged)
        if best is None:
            pairs.append((group, set()))
        else:
            pairs[best][0].update(group)
    return pairs
