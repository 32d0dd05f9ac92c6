"""What a mesh really moves while a program is lowered on it: every call by which processors communicate, noted."""

import contextlib
import math

import pytest

from mtf_imaging.meshes import ShardMeshImpl
from mtf_imaging.meshes.exchange import Exchange
from mtf_imaging.meshes.halo import far as far_halo
from mtf_imaging.meshes.halo import gathering as halo_gather


def _nbytes(x):
    return math.prod(x.slice_shape) * x.dtype.size


def _far_exchanges(mesh, x, margin, sign):
    """What slices exchange for a margin that reaches past the next slice: a strip with every slice in reach."""
    for direction, voxels in ((sign, margin.before), (-sign, margin.after)):
        for hop in range(1, mesh.shape[margin.mesh_axis].size):
            strip = min(margin.size, voxels - (hop - 1) * margin.size)
            if strip > 0:
                yield Exchange("halo", (margin.mesh_axis,), _nbytes(x) // margin.size * strip, direction * hop)


@contextlib.contextmanager
def recorded():
    """Within it, programs on stacked meshes note what they exchange, in a list of `Exchange`s.

    Halos are exchanged as between devices, not gathered from the stack.
    """
    found = []
    receive, allreduce = ShardMeshImpl.receive, ShardMeshImpl.allreduce
    window_sum, gather, alltoall = ShardMeshImpl.window_sum, ShardMeshImpl.gather, ShardMeshImpl.alltoall

    def noted_receive(self, x, mesh_axis, source_pcoord, fill=0):
        hops = {target - source for target, source in enumerate(source_pcoord) if source is not None} - {0}
        for distance in hops:  # none where a margin is wider than all neighbours together
            found.append(Exchange("halo", (mesh_axis,), _nbytes(x.to_laid_out_tensor()), distance))
        return receive(self, x, mesh_axis, source_pcoord, fill)

    def noted_allreduce(self, x, mesh_axes, reduction):
        found.append(Exchange("sum", tuple(sorted(set(mesh_axes))), _nbytes(x.to_laid_out_tensor())))
        return allreduce(self, x, mesh_axes, reduction)

    def noted_window_sum(self, fn, batched, summed_axes, varying_axes=(), batch_ndims=1):
        y = window_sum(self, fn, batched, summed_axes, varying_axes, batch_ndims)
        if summed_axes:
            found.append(Exchange("sum", tuple(sorted(set(summed_axes))), _nbytes(y)))
        return y

    def noted_gather(self, x, dims):
        if dims:
            found.append(Exchange("gather", tuple(sorted(dims)), _nbytes(x.to_laid_out_tensor())))
        return gather(self, x, dims)

    def noted_alltoall(self, x, mesh_axis, split_axis, concat_axis):
        found.append(Exchange("all-to-all", (mesh_axis,), _nbytes(x.to_laid_out_tensor())))
        return alltoall(self, x, mesh_axis, split_axis, concat_axis)

    widen_far, narrow_far = far_halo.widen, far_halo.narrow

    def noted_widen_far(mesh, x, margin, fill):
        found.extend(_far_exchanges(mesh, x, margin, 1))
        return widen_far(mesh, x, margin, fill)

    def noted_narrow_far(mesh, dx, margin):
        dx = narrow_far(mesh, dx, margin)
        found.extend(_far_exchanges(mesh, dx, margin, -1))
        return dx

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(far_halo, "widen", noted_widen_far)
        patch.setattr(far_halo, "narrow", noted_narrow_far)
        patch.setattr(halo_gather, "reach", lambda mesh, stack, margins: 0)
        for name, noted in (
            ("receive", noted_receive),
            ("allreduce", noted_allreduce),
            ("window_sum", noted_window_sum),
            ("gather", noted_gather),
            ("alltoall", noted_alltoall),
        ):
            patch.setattr(ShardMeshImpl, name, noted)
        yield found
