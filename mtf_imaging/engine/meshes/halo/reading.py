"""Halos of processors that take turns: a turn reads the strips that others have stored."""

import dataclasses

import tensorflow as tf

from mtf_imaging.engine.meshes.halo.margin import Margin, Piece
from mtf_imaging.engine.meshes.halo.steps import Step, cut, pad
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl


@dataclasses.dataclass(frozen=True)
class Read(Step):
    """Joins each slice with the strips of other turns."""

    margin: Margin

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        m = self.margin
        before: list[LaidOutTensor] = []
        after: list[LaidOutTensor] = []
        for piece in self._pieces(mesh):
            strip = _strip(mesh, x, m.dim, piece.source - m.before, piece.voxels)
            (before if piece.distance > 0 else after).append(_sent(mesh, strip, m.axis, piece.distance, fill))

        def join(*stacks: tf.Tensor) -> tf.Tensor:
            return tf.concat(stacks, m.dim + 1)

        x = mesh.map_stacks(join, *reversed(before), x, *after)
        # A margin may reach past the border of all slices.
        width = sum(piece.voxels for piece in self._pieces(mesh) if piece.distance > 0)
        rest = dataclasses.replace(m, size=x.slice_shape[m.dim], before=m.before - width)
        rest = dataclasses.replace(rest, after=m.before + m.size + m.after - rest.before - rest.size)
        return mesh.map_stacks(lambda stack: pad(stack, [rest], fill), x)

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """Adds the values in the margins to the voxels from which they were copied."""
        m = self.margin
        own = _strip(mesh, dx, m.dim, m.before, m.size)
        for piece in self._pieces(mesh):
            strip = _strip(mesh, dx, m.dim, piece.target, piece.voxels)
            strip = _sent(mesh, strip, m.axis, -piece.distance, 0)
            begin = piece.source - m.before
            place = Margin(m.dim, piece.voxels, begin, m.size - begin - piece.voxels)
            own = mesh.map_stacks(lambda stack, value, place=place: stack + pad(value, [place], 0), own, strip)
        return own

    def _pieces(self, mesh: ShardMeshImpl) -> list[Piece]:
        return self.margin.pieces(mesh.grid.mesh[self.margin.axis])


def _strip(mesh: ShardMeshImpl, x: LaidOutTensor, dim: int, begin: int, voxels: int) -> LaidOutTensor:
    """Cuts a strip out of each slice."""
    return mesh.map_stacks(lambda stack: cut(stack, {dim: (begin, voxels)}), x)


def _sent(mesh: ShardMeshImpl, x: LaidOutTensor, axis: int, distance: int, fill: float) -> LaidOutTensor:
    """Sends each slice to the turn that is `distance` slices away; turns without a sender get `fill`."""
    n = mesh.grid.mesh[axis]
    return mesh.received(x, axis, [i - distance if 0 <= i - distance < n else None for i in range(n)], fill)
