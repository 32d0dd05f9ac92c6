"""Halos of processors that take turns: a turn reads the strips that others have stored."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.halo.margin import Margin, Piece
from mtf_imaging.engine.meshes.halo.steps import Step, cut, gather, gather_or_zero, pad
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


@dataclasses.dataclass(frozen=True)
class ReadSlices(Step):
    """Joins the slices that contain the windows of each turn, and cuts the voxels of the windows out of them."""

    margin: Margin

    def _first(self, at: int) -> int:
        """Returns the first voxel of the whole tensor that a turn needs."""
        m = self.margin
        return at * m.size - m.before + m.plan.starts[at]

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        m, every = self.margin, range(self.margin.plan.parts)
        whole = _strip(mesh, x, m.dim, 0, m.size)
        begin = [self._first(at) // m.size for at in every]
        last = [(self._first(at) + m.plan.length - 1) // m.size for at in every]
        number = max(end - first for first, end in zip(begin, last)) + 1
        slices = [
            mesh.received(whole, m.axis, [first + n if 0 <= first + n < len(every) else None for first in begin], fill)
            for n in range(number)
        ]
        line = mesh.map_stacks(lambda *stacks: tf.concat(stacks, m.dim + 1), *slices)
        voxels = np.arange(m.plan.length)
        return gather(mesh, line, m, lambda at: self._first(at) - begin[at] * m.size + voxels)

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """Adds the values of all turns to the voxels from which they were copied."""
        m, every = self.margin, range(self.margin.plan.parts)
        first, length = [self._first(at) for at in every], m.plan.length
        readers = [[n for n in every if -length < first[n] - at * m.size < m.size] for at in every]
        dx, parts = _strip(mesh, dx, m.dim, 0, length), []
        for number in range(max(map(len, readers))):
            source = [own[number] if number < len(own) else None for own in readers]

            def voxels(at: int, source: Sequence[int | None] = source) -> np.ndarray:
                return at * m.size - first[source[at] or 0] + np.arange(m.size)

            parts.append(gather_or_zero(mesh, mesh.received(dx, m.axis, source, 0), m, voxels))
        return functools.reduce(functools.partial(mesh.map_stacks, tf.add), parts)


def _strip(mesh: ShardMeshImpl, x: LaidOutTensor, dim: int, begin: int, voxels: int) -> LaidOutTensor:
    """Cuts a strip out of each slice."""
    return mesh.map_stacks(lambda stack: cut(stack, {dim: (begin, voxels)}), x)


def _sent(mesh: ShardMeshImpl, x: LaidOutTensor, axis: int, distance: int, fill: float) -> LaidOutTensor:
    """Sends each slice to the turn that is `distance` slices away; turns without a sender get `fill`."""
    n = mesh.grid.mesh[axis]
    return mesh.received(x, axis, [i - distance if 0 <= i - distance < n else None for i in range(n)], fill)
