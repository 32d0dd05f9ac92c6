"""A slow reference implementation of lesion pairing on sets of voxels, independent of the package."""

import itertools


def voxels(mask):
    return {tuple(int(i) for i in index) for index in zip(*mask.nonzero(), strict=True)}


def neighbors(voxel):
    for axis, step in itertools.product(range(3), (-1, 1)):
        yield tuple(v + step * (a == axis) for a, v in enumerate(voxel))


def components(mask):
    """Returns the sets of voxels connected through faces, ordered by their first voxel."""
    left, result = voxels(mask), []
    while left:
        group, edge = set(), [min(left)]
        while edge:
            voxel = edge.pop()
            if voxel in left:
                left.remove(voxel)
                group.add(voxel)
                edge += neighbors(voxel)
        result.append(group)
    return sorted(result, key=min)


def lesions(prediction, reference):
    """Returns pairs (voxels of the prediction, voxels of the reference) after merging."""
    predicted, real = components(prediction), components(reference)

    def most(group, others):
        """Returns the index of the group in `others` with the largest overlap, or None; the first wins a tie."""
        shared = [len(group & other) for other in others]
        return shared.index(max(shared)) if any(shared) else None

    merged = {}
    for number, group in enumerate(real):
        best = most(group, predicted)
        merged.setdefault(("alone", number) if best is None else best, set()).update(group)
    merged = list(merged.values())
    pairs = [(set(), group) for group in merged]
    for group in predicted:
        best = most(group, merged)
        if best is None:
            pairs.append((group, set()))
        else:
            pairs[best][0].update(group)
    return pairs
