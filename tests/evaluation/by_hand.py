"""Pairs lesions voxel by voxel on sets of tuples: slow, but independent of the code of the package."""

import itertools


def voxels(mask):
    return {tuple(int(i) for i in index) for index in zip(*mask.nonzero(), strict=True)}


def neighbors(voxel):
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
                edge += neighbors(voxel)
        found.append(group)
    return sorted(found, key=min)


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
