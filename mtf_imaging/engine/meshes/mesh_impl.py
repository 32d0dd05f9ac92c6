"""The mesh implementation, which stores a mesh of processors as one shard per device.

One class covers all situations: a mesh simulated on one device (one shard of n processors), a mesh with one device per
processor (n shards of one processor), a mesh with fewer devices than processors, and a mesh of several processes, each
with one shard. The size of the graph grows with the number of shards in a process, not with the number of processors.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import collectives, local, whole
from mtf_imaging.engine.meshes.exchange import Exchange
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor, Lowered
from mtf_imaging.engine.meshes.random import numbers
from mtf_imaging.engine.meshes.shards import Shards
from mtf_imaging.engine.meshes.variables import LaidOutVariable


class _Protocol(Shards):
    """The class attributes that mesh_tensorflow reads from a mesh implementation."""

    LaidOutTensor = LaidOutTensor
    LaidOutVariable = LaidOutVariable


class ShardMeshImpl(_Protocol):
    """A mesh of processors and their communication; `Shards` describes the arguments."""

    # Sums over processors.

    def window_sum(
        self,
        fn: Callable[..., Any],
        batched: Sequence[LaidOutTensor],
        summed_axes: Collection[int],
        varying_axes: Collection[int] = (),
        batch_ndims: int = 1,
        is_gradient: bool = False,
        pieces: Callable[[Sequence[int]], Sequence[local.Piece]] | None = None,
    ) -> LaidOutTensor:
        """Calls a function that sums over the batch, such as the gradient of a filter, and sums over processors.

        Args:
          fn: a function from `len(batched)` tensors `[batch] + ...` to a tensor, which is a sum over the batch.
          batched: laid-out tensors whose first `batch_ndims` dimensions are batch dimensions.
          summed_axes: mesh axes over which results are summed: the axes that split batch or spatial dimensions.
          varying_axes: mesh axes along which results differ: the axes that split dimensions of the result.
          batch_ndims: number of batch dimensions.
          is_gradient: whether the result is the gradient of a weight, which only the update reads; see
            `sum_gradient`.
          pieces: a function from the coordinates of a shard to the pieces of its slices without tails; None if no slice
            has a tail.

        Returns:
          A laid-out tensor with the sum, float32 if `fn` returns 16-bit numbers.
        """
        options = self.grid.local, summed_axes, varying_axes, batch_ndims
        if pieces is None:
            x = self.map_stacks(lambda *stacks: local.fold_sum(fn, stacks, *options), *batched)
        else:
            x = self.map_shards(
                lambda shard, *stacks: local.fold_sum_of_pieces(fn, stacks, pieces(shard), *options),
                *batched,
                key=lambda shard: repr(pieces(shard)),
            )
        return self.sum_shards(self.cast(x, local.partial_dtype(x.dtype)), summed_axes, is_gradient)

    def sum_shards(self, x: LaidOutTensor, summed_axes: Collection[int], is_gradient: bool = False) -> LaidOutTensor:
        """Sums over processors, for stacks that are already summed over the processors of each shard.

        Args:
          x: the sums of each shard.
          summed_axes: mesh axes over which to sum.
          is_gradient: see `window_sum`.
        """
        self._record("sum", summed_axes, x)
        if is_gradient and self.transport.is_between_processes:
            return self._deferred.add(x.tensor_list, summed_axes)
        return LaidOutTensor(self.transport.reduce(x.tensor_list, summed_axes, "SUM", everywhere=not is_gradient))

    def sum_gradient(self, lazy: mtf.LazyAllreduceSum) -> LaidOutTensor:
        """Sums the gradient of a weight over processors; only the update reads the result.

        Within this process, the device that keeps the weight sums the gradient. Between processes, the sum is deferred,
        so that a few messages carry all gradients.

        Args:
          lazy: the sum.
        """
        stacks, axes = lazy.laid_out_input.tensor_list, lazy.mesh_axes
        self._record("sum", axes, lazy.laid_out_input)
        if self.transport.is_between_processes:
            return self._deferred.add(collectives.sum_local(stacks, self.transport, axes), axes)
        return LaidOutTensor(collectives.allreduce(stacks, self.transport, axes, "SUM", everywhere=False))

    # Communication; `mtf.MeshImpl` documents these methods.

    def _record(self, kind: str, mesh_axes: Collection[int], x: LaidOutTensor, distance: int = 0) -> None:
        """Records an exchange of a laid-out tensor's slices."""
        if mesh_axes:
            nbytes = math.prod(x.slice_shape) * x.dtype.size
            self.exchanged.append(Exchange(kind, tuple(sorted(set(mesh_axes))), nbytes, distance))

    def allreduce(self, x: Lowered, mesh_axes: Collection[int], reduction_fn_string: str) -> LaidOutTensor:
        x = x.to_laid_out_tensor()
        partial = self.cast(x, local.partial_dtype(x.dtype)) if reduction_fn_string == "SUM" else x
        self._record("sum", mesh_axes, partial)
        stacks = collectives.allreduce(partial.tensor_list, self.transport, mesh_axes, reduction_fn_string)
        return self.cast(LaidOutTensor(stacks), x.dtype)

    def allconcat(self, x: Lowered, mesh_axis: int, concat_axis: int) -> LaidOutTensor:
        return self.gather(x, {mesh_axis: concat_axis})

    def gather(self, x: Lowered, dims: Mapping[int, int]) -> LaidOutTensor:
        """Does `allconcat` along several mesh dimensions at once; `dims` is {mesh axis: slice dimension}."""
        x = x.to_laid_out_tensor()
        self._record("gather", dims, x)
        return LaidOutTensor(collectives.allconcat(x.tensor_list, self.transport, dims)) if dims else x

    def alltoall(self, x: Lowered, mesh_axis: int, split_axis: int, concat_axis: int) -> LaidOutTensor:
        x = x.to_laid_out_tensor()
        self._record("all-to-all", [mesh_axis], x)
        return LaidOutTensor(collectives.alltoall(x.tensor_list, self.transport, mesh_axis, split_axis, concat_axis))

    def allsplit(self, x: Lowered, mesh_axis: int, split_axis: int, which: object = None) -> LaidOutTensor:
        if which is not None:
            return super().allsplit(x, mesh_axis, split_axis, which)
        return self.scatter(x, {mesh_axis: split_axis})

    def scatter(self, x: Lowered, dims: Mapping[int, int]) -> LaidOutTensor:
        """Does `allsplit` along several mesh dimensions at once; `dims` is {mesh axis: slice dimension}."""
        x = x.to_laid_out_tensor()
        return LaidOutTensor(collectives.allsplit(x.tensor_list, self.transport, dims)) if dims else x

    def receive(self, x: Lowered, mesh_axis: int, source_pcoord: Sequence[int | None]) -> LaidOutTensor:
        self._record_received(x, mesh_axis, source_pcoord)
        return self.received(x.to_laid_out_tensor(), mesh_axis, source_pcoord, 0)

    def received(
        self, x: LaidOutTensor, mesh_axis: int, source_pcoord: Sequence[int | None], fill: float
    ) -> LaidOutTensor:
        """Gives processor i along `mesh_axis` the slice of processor `source_pcoord[i]`, or a slice of `fill`."""
        return LaidOutTensor(collectives.receive(x.tensor_list, self.transport, mesh_axis, source_pcoord, fill))

    def _record_received(self, x: Lowered, mesh_axis: int, source_pcoord: Sequence[int | None]) -> None:
        distances = {to - source for to, source in enumerate(source_pcoord) if source is not None} - {0}
        for distance in sorted(distances):
            self._record("halo", [mesh_axis], x.to_laid_out_tensor(), distance)

    # Random numbers, import and export.

    def random(self, shape: mtf.Shape, tf_fn: Callable[..., tf.Tensor], kwargs: Mapping[str, Any]) -> LaidOutTensor:
        """Draws for `mtf.random_uniform` and `mtf.random_normal`; the layout does not change the values."""
        assert self.random_state is not None, "the mesh has no RandomState; `Program` sets it before lowering"
        return numbers.draw(self, shape, tf_fn.__name__, self.random_state.next_key(), kwargs)

    def import_tf_tensor(self, x: mtf.Tensor, tf_x: tf.Tensor) -> LaidOutTensor:
        """Splits a whole tensor, or the box of this process, on the host and sends each shard its slices."""
        split = self.split_axes(x.shape)
        if tf_x.shape == x.shape.to_integer_list:
            return LaidOutTensor(whole.scatter(tf_x, split, self.transport, self.host))
        (device,) = self.devices
        with tf.device(device):
            return LaidOutTensor([whole.cut(self.transport.part(tf_x, split), split, self.grid)])

    def export_to_tf_tensor(self, x: mtf.Tensor, laid_out_x: Lowered) -> tf.Tensor:
        """Gathers a laid-out tensor on the host: the whole tensor, or the box of this process if there are several."""
        stacks = self.canonical(laid_out_x.to_laid_out_tensor(), x.shape).tensor_list
        split, sizes = self.split_axes(x.shape), x.shape.to_integer_list
        if self.transport.is_between_processes and self.is_split(x.shape):
            with tf.device(self.host):
                return tf.identity(whole.box_of(stacks[0], split, sizes, self.transport))
        return whole.gather(stacks, split, sizes, self.transport, self.host)

    def Print(self, x: Lowered, data: Sequence[LaidOutTensor], message: str, **kwargs: object) -> LaidOutTensor:
        with tf.control_dependencies([tf.print(message, *[d.tensor_list[0] for d in data], **kwargs)]):
            return self.map_stacks(tf.identity, x.to_laid_out_tensor())
