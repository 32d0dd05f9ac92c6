"""A recorder of all exchanges on a mesh while a program is lowered."""

import contextlib
import functools
import math

import pytest

from mtf_imaging.engine.meshes import ShardMeshImpl, collectives
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.halo import planning
from mtf_imaging.engine.meshes.halo.far import Far


def _nbytes(x):
    return math.prod(x.slice_shape) * x.dtype.size


def _far_exchanges(mesh, x, margin, sign):
    """Yields the exchanges for a margin that reaches past the next slice: one strip for every slice in reach."""
    for direction, voxels in ((sign, margin.before), (-sign, margin.after)):
        for hop in range(1, mesh.shape[margin.mesh_axis].size):
            strip = min(margin.size, voxels - (hop - 1) * margin.size)
            if strip > 0:
                yield Exchange("halo", (margin.mesh_axis,), _nbytes(x) // margin.size * strip, direction * hop)


@contextlib.contextmanager
def recorded():
    """Records the `Exchange`s of programs on stacked meshes in a list.

    Halos are exchanged as between devices, not gathered from the stack.
    """
    exchanges = []
    receive, allreduce = collectives.receive, collectives.allreduce
    sum_shards, gather, alltoall = ShardMeshImpl.sum_shards, ShardMeshImpl.gather, ShardMeshImpl.alltoall

    def noted_receive(stacks, transport, axis, source_pcoord, fill):
        nbytes = math.prod(stacks[0].shape[1:]) * stacks[0].dtype.size
        hops = {target - source for target, source in enumerate(source_pcoord) if source is not None} - {0}
        for distance in hops:  # empty if a margin is wider than all neighbors together
            exchanges.append(Exchange("halo", (axis,), nbytes, distance))
        return receive(stacks, transport, axis, source_pcoord, fill)

    def noted_allreduce(stacks, transport, axes, *options, **names):
        nbytes = math.prod(stacks[0].shape[1:]) * stacks[0].dtype.size
        exchanges.append(Exchange("sum", tuple(sorted(set(axes))), nbytes))
        return allreduce(stacks, transport, axes, *options, **names)

    def noted_sum_shards(self, x, summed_axes, is_gradient=False):
        if summed_axes:
            exchanges.append(Exchange("sum", tuple(sorted(set(summed_axes))), _nbytes(x)))
        return sum_shards(self, x, summed_axes, is_gradient)

    def noted_gather(self, x, dims):
        if dims:
            exchanges.append(Exchange("gather", tuple(sorted(dims)), _nbytes(x.to_laid_out_tensor())))
        return gather(self, x, dims)

    def noted_alltoall(self, x, mesh_axis, split_axis, concat_axis):
        exchanges.append(Exchange("all-to-all", (mesh_axis,), _nbytes(x.to_laid_out_tensor())))
        return alltoall(self, x, mesh_axis, split_axis, concat_axis)

    widen_far, narrow_far = Far.widen, Far.narrow

    def noted_widen_far(self, mesh, x, fill):
        exchanges.extend(_far_exchanges(mesh, x, self.margin, 1))
        return widen_far(self, mesh, x, fill)

    def noted_narrow_far(self, mesh, dx):
        dx = narrow_far(self, mesh, dx)
        exchanges.extend(_far_exchanges(mesh, dx, self.margin, -1))
        return dx

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Far, "widen", noted_widen_far)
        patch.setattr(Far, "narrow", noted_narrow_far)
        patch.setattr(planning, "plan", functools.partial(planning.plan, gathers=False))
        patch.setattr(collectives, "receive", noted_receive)
        patch.setattr(collectives, "allreduce", noted_allreduce)
        for name, noted in (
            ("sum_shards", noted_sum_shards),
            ("gather", noted_gather),
            ("alltoall", noted_alltoall),
        ):
            patch.setattr(ShardMeshImpl, name, noted)
        yield exchanges
