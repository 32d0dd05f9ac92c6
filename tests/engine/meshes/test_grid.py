"""The division of a mesh into shards, compared with all pairs of shards. Pure Python."""

import itertools
import math

import pytest

from mtf_imaging.engine.meshes.grid import ShardGrid

GRIDS = [((4,), 4), ((4, 2), 4), ((2, 3), 6), ((3, 2), 2), ((2, 2, 3), 12), ((4, 4, 4), 16), ((5,), 1), ((), 1)]


def _sets_of_axes(grid):
    return [set(axes) for n in range(len(grid.mesh) + 1) for axes in itertools.combinations(range(len(grid.mesh)), n)]


@pytest.mark.parametrize(("mesh", "num"), GRIDS)
def test_shards_cover_the_mesh_once(mesh, num):
    grid = ShardGrid.make(mesh, num)
    assert grid.num_shards == math.prod(grid.shards) <= num
    processors = [at for shard in grid.shard_coordinates() for at in grid.processor_coordinates(shard)]
    assert sorted(processors) == list(itertools.product(*map(range, mesh)))
    assert [grid.shard_number(at) for at in grid.shard_coordinates()] == list(range(grid.num_shards))


@pytest.mark.parametrize(("mesh", "num"), GRIDS)
def test_a_group_differs_only_along_its_axes(mesh, num):
    grid = ShardGrid.make(mesh, num)
    every = grid.shard_coordinates()
    for axes, (number, shard) in itertools.product(_sets_of_axes(grid), enumerate(every)):
        expected = [
            other
            for other, at in enumerate(every)
            if all(a == b for axis, (a, b) in enumerate(zip(at, shard, strict=True)) if axis not in axes)
        ]
        assert grid.group(shard, axes) == expected
        assert number in expected


@pytest.mark.parametrize(("mesh", "num"), GRIDS)
def test_first_members_are_the_first_of_each_group(mesh, num):
    grid = ShardGrid.make(mesh, num)
    every = grid.shard_coordinates()
    for axes, shards in itertools.product(_sets_of_axes(grid), (every, every[1::2], every[:1])):
        firsts = [every[grid.group(shard, axes)[0]] for shard in shards]
        assert grid.first_members(shards, axes) == list(dict.fromkeys(firsts))
