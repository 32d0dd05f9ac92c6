"""Halos of processors that take turns: a turn reads the strips that others have stored."""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.halo.margin import Margin
from mtf_imaging.engine.meshes.halo.steps import Step, cut, gather, gather_or_zero, pad
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl


class _Strip(NamedTuple):
    """The voxels of one slice that each turn reads.

    Attributes:
      sources: for each turn, the number of the slice; no slice has this number beyond the border.
      begin: the first voxel of the slice that any turn needs.
      end: the end of these voxels.
    """

    sources: list[int]
    begin: int
    end: int


@dataclasses.dataclass(frozen=True)
class Read(Step):
    """Joins the strips of slices that contain the windows of each turn."""

    margin: Margin

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        m, (strips, offsets) = self.margin, self._strips(mesh)
        stacks = [self._sent(mesh, x, slice(strip.begin, strip.end), strip.sources, fill) for strip in strips]
        line = mesh.map_stacks(lambda *stacks: tf.concat(stacks, m.dim + 1), *stacks)
        return gather(mesh, line, m, lambda at: offsets[at] + np.arange(m.width)) if any(offsets) else line

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """Adds the values of all turns to the voxels from which they were copied."""
        m, (strips, offsets), begin, parts = self.margin, self._strips(mesh), 0, []
        if any(offsets):
            line = np.arange(sum(strip.end - strip.begin for strip in strips))
            dx = gather_or_zero(mesh, dx, m, lambda at: line - offsets[at])
        for strip in strips:
            voxels = strip.end - strip.begin
            readers = [[at for at, source in enumerate(strip.sources) if source == n] for n in range(len(offsets))]
            place = Margin(m.dim, voxels, strip.begin, m.size - strip.end)
            for number in range(max(map(len, readers))):
                turns = [each[number] if number < len(each) else -1 for each in readers]
                part = self._sent(mesh, dx, slice(begin, begin + voxels), turns, 0)
                parts.append(mesh.map_stacks(lambda stack, place=place: pad(stack, [place], 0), part))
            begin += voxels
        return functools.reduce(functools.partial(mesh.map_stacks, tf.add), parts)

    def _strips(self, mesh: ShardMeshImpl) -> tuple[list[_Strip], list[int]]:
        """Returns the strips that a turn joins, and the first voxel of them that each turn needs."""
        m, strips = self.margin, []
        first = [m.first(at) for at in range(mesh.grid.mesh[m.axis])]
        begin = [voxel // m.size for voxel in first]
        for n in range(max((voxel + m.width - 1) // m.size - at for voxel, at in zip(first, begin)) + 1):
            needed = [voxel - (at + n) * m.size for voxel, at in zip(first, begin)]
            ends = max(0, min(needed)), min(m.size, max(needed) + m.width)
            strips.append(_Strip([at + n for at in begin], *ends))
        return strips, [voxel - at * m.size - strips[0].begin for voxel, at in zip(first, begin)]

    def _sent(
        self, mesh: ShardMeshImpl, x: LaidOutTensor, strip: slice, sources: list[int], fill: float
    ) -> LaidOutTensor:
        """Gives each turn a strip of the value of another turn, or `fill` if there is no such turn."""
        m, turns = self.margin, [*range(len(sources))]
        if sources != turns or strip != slice(0, x.slice_shape[m.dim]):
            x = mesh.map_stacks(lambda stack: cut(stack, {m.dim: (strip.start, strip.stop - strip.start)}), x)
        if sources == turns:
            return x
        return mesh.received(x, m.axis, [n if n in turns else None for n in sources], fill)
