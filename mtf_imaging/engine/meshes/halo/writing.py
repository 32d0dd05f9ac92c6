"""Halos between devices with several slices each: strips of neighbors are written into padded slices, in place."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import tensorflow as tf

from mtf_imaging.engine.meshes.halo.margin import Margin, Piece
from mtf_imaging.engine.meshes.halo.steps import Step, cut, pad, within
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.local import reshape
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl


@dataclasses.dataclass(frozen=True)
class Write(Step):
    """Writes the voxels of neighbors into margins that are padded.

    Attributes:
      written: the margins to write, in order.
      padded: margins that stay padding.
    """

    written: tuple[Margin, ...]
    padded: tuple[Margin, ...]

    def widen(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float) -> LaidOutTensor:
        for m, piece, own in self._strips(mesh):
            x = _send(mesh, x, m, piece, own, fill)
        return x

    def narrow(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """Adds the values in the margins to the voxels from which they were copied."""
        for m, piece, own in reversed(list(self._strips(mesh))):
            back = Piece(piece.voxels, -piece.distance, piece.target, piece.source)
            dx = _send(mesh, dx, m, back, own, 0, adds=True)
        return dx

    def _strips(self, mesh: ShardMeshImpl) -> Iterator[tuple[Margin, Piece, tuple[Margin, ...]]]:
        """Yields the exchanged pieces in order, as (margin, piece, margins that are not written yet).

        Along these dimensions, neighbors need only the voxels of the slice itself.
        """
        for number, m in enumerate(self.written, 1):
            for piece in m.pieces(mesh.grid.mesh[m.axis]):
                yield m, piece, self.written[number:] + self.padded


def _send(
    mesh: ShardMeshImpl,
    x: LaidOutTensor,
    margin: Margin,
    piece: Piece,
    own: Sequence[Margin],
    fill: float,
    adds: bool = False,
) -> LaidOutTensor:
    """Writes a piece of each slice into the slice of a neighbor, or adds it to the values there.

    Shards at the border that do not receive anything are unchanged.
    """
    dim, axis, voxels, distance = margin.dim, margin.axis, piece.voxels, piece.distance
    n, local = mesh.grid.mesh[axis], mesh.grid.local[axis]
    strips = mesh.map_stacks(lambda s: cut(s, {dim: (piece.source, voxels)} | within(own)), x)
    sources = [i - distance if 0 <= i - distance < n else None for i in range(n)]
    received = mesh.received(strips, axis, sources, fill)

    def write(shard: Sequence[int], stack: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
        first = shard[axis] * local - distance
        if first >= n or first + local <= 0:
            return stack
        new = cut(stack, {dim: (piece.target, voxels)}) + pad(value, own, 0) if adds else pad(value, own, fill)
        return _write(stack, new, dim, piece.target, voxels)

    return mesh.map_shards(write, x, received)


def _write(stack: tf.Tensor, value: tf.Tensor, dim: int, begin: int, voxels: int) -> tf.Tensor:
    """Writes `value` into `stack`, in place because no other operation reads the stack afterwards."""
    axis = dim + 1
    # TensorFlow's kernel is fastest with three dimensions and does not support arbitrary ranks.
    outer, width, inner = math.prod(stack.shape[:axis]), stack.shape[axis], math.prod(stack.shape[axis + 1 :])
    written = tf.raw_ops.TensorStridedSliceUpdate(
        input=reshape(stack, [outer, width, inner]),
        begin=[0, begin, 0],
        end=[outer, begin + voxels, inner],
        strides=[1, 1, 1],
        value=tf.reshape(value, [outer, voxels, inner]),
    )
    return tf.reshape(written, stack.shape)
