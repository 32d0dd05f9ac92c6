"""The mesh implementation: a mesh of processors as shards of stacked slices, one shard a device.

One class serves a mesh simulated on one device (one shard of n processors), a mesh with a device a processor (n shards
of one), and what lies between (fewer devices than processors). Its graph grows with the number of shards, not of
processors.
"""

import copy
import math

import numpy as np
import tensorflow as tf

from mtf_imaging.compat import layout_pairs, mtf
from mtf_imaging.meshes import collectives, local, whole
from mtf_imaging.meshes.devices import host_device
from mtf_imaging.meshes.exchange import Exchange
from mtf_imaging.meshes.grid import ShardGrid
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.meshes.random import numbers as random
from mtf_imaging.meshes.variables import LaidOutVariable


def _laid_out(results):
    """Results of all shards, each a stack or a tuple of them, as a laid-out tensor or a tuple of them."""
    if isinstance(results[0], (tuple, list)):
        return tuple(LaidOutTensor(stacks) for stacks in zip(*results))
    return LaidOutTensor(results)


class ShardMeshImpl(mtf.MeshImpl):
    """A mesh of processors on one or more devices.

    Args:
      shape: mesh shape, as `mtf.convert_to_shape` takes it.
      layout: layout rules, as `mtf.convert_to_layout_rules` takes them.
      devices: device strings; as many of them are used as divide the mesh into equal shards.
      random_state: `RandomState` of the program, if it draws random numbers.

    Attributes:
      exchanged: an `Exchange` for each one that was lowered on this mesh so far, also where processors share a device
        and nothing leaves it.
    """

    LaidOutTensor = LaidOutTensor
    LaidOutVariable = LaidOutVariable

    def __init__(self, shape, layout, devices, random_state=None):
        shape = mtf.convert_to_shape(shape)
        single = {dim.name for dim in shape.dims if dim.size == 1}  # a mesh dimension of size 1 splits nothing
        rules = layout_pairs(mtf.convert_to_layout_rules(layout))
        super().__init__(shape, mtf.LayoutRules({rule for rule in rules if rule[1] not in single}))
        self.grid = ShardGrid.make(self.shape.to_integer_list, len(devices))
        self.devices = list(devices)[: self.grid.num_shards]
        self.host = host_device()
        self.random_state = random_state
        self.assignments = []
        self.exchanged = []

    # What a layout says of a tensor.

    def without(self, names):
        """Returns the same mesh under a layout without the rules for the named dimensions."""
        mesh = copy.copy(self)
        rules = {rule for rule in layout_pairs(self.layout_rules) if rule[0] not in names}
        mtf.MeshImpl.__init__(mesh, self.shape, mtf.LayoutRules(rules))
        return mesh

    def split_axes(self, shape):
        """Returns, for each dimension of `shape`, the mesh axis that splits it, or None."""
        return list(self.tensor_layout(shape).tensor_axis_to_mesh_axis)

    def is_split(self, shape):
        return any(axis is not None for axis in self.split_axes(shape))

    def canonical(self, x, shape):
        """`x` with stacks of one where the layout splits no dimension of `shape`, and of all slices where it does."""
        n = self.grid.stack_size
        wanted = n if self.is_split(shape) else 1
        if x.tensor_list[0].shape[0] == wanted:
            return x
        if wanted == 1:
            return self.map_stacks(lambda t: t[:1], x)
        return self.map_stacks(lambda t: tf.broadcast_to(t, [n, *t.shape[1:]]), x)

    def canonical_like(self, constants, x):
        """Constants of every processor, as stacks of one where `x` has them."""
        if x.tensor_list[0].shape[0] == 1:
            return self.map_stacks(lambda t: t[:1], constants)
        return constants

    # Local work.

    def map_stacks(self, fn, *inputs):
        """Calls `fn` on whole stacks, shard by shard: `fn(*stacks) -> stack` (or tuple), on the shard's device."""
        results = []
        for shard, device in enumerate(self.devices):
            with tf.device(device):
                results.append(fn(*[x.tensor_list[shard] for x in inputs]))
        return _laid_out(results)

    def slicewise(self, fn, *inputs):
        """Calls `fn` on the slices of every processor; see `mtf.MeshImpl.slicewise`."""
        inputs = mtf.convert_args_to_laid_out_tensors(inputs)
        results = []
        for shard, device in enumerate(self.devices):
            stacked = [isinstance(x, LaidOutTensor) for x in inputs]
            args = [x.tensor_list[shard] if s else x for x, s in zip(inputs, stacked)]
            with tf.device(device):
                results.append(local.map_slices(fn, args, stacked))
        return _laid_out(results)

    def window(self, fn, batched, shared=(), shared_axes=(), batch_ndims=1):
        """Calls a batch-parallel local function once for all slices of a shard, which become one larger batch.

        Args:
          fn: from `len(batched)` tensors `[batch] + ...` and the slices of `shared` to a tensor `[batch] + ...`, or a
            tuple of such tensors.
          batched: laid-out tensors whose first `batch_ndims` dimensions are batch dimensions.
          shared: laid-out tensors that the whole batch shares (filters).
          shared_axes: mesh axes along which the slices of `shared` differ; `fn` is called once for each of their
            coordinates.
          batch_ndims: number of batch dimensions.

        Returns:
          A laid-out tensor (or tuple of them) with the batch dimensions of `batched`.
        """
        results = []
        for shard, device in enumerate(self.devices):
            with tf.device(device):
                results.append(
                    local.fold_call(
                        fn,
                        [x.tensor_list[shard] for x in batched],
                        [x.tensor_list[shard] for x in shared],
                        self.grid.local,
                        shared_axes,
                        batch_ndims,
                    )
                )
        return _laid_out(results)

    def window_sum(self, fn, batched, summed_axes, varying_axes=(), batch_ndims=1):
        """Calls a local function that sums over the batch (a filter's gradient), and sums over processors.

        Args:
          fn: from `len(batched)` tensors `[batch] + ...` to a tensor, a sum over the batch.
          batched: laid-out tensors whose first `batch_ndims` dimensions are batch dimensions.
          summed_axes: mesh axes over which results are summed (those that split batch or spatial dimensions).
          varying_axes: mesh axes along which the results differ (those that split the result's own dimensions).
          batch_ndims: number of batch dimensions.
        """
        stacks = []
        for shard, device in enumerate(self.devices):
            with tf.device(device):
                inputs = [x.tensor_list[shard] for x in batched]
                stacks.append(
                    local.fold_sum(fn, inputs, self.grid.local, summed_axes, varying_axes, batch_ndims),
                )
        total = LaidOutTensor(collectives.sum_shards(stacks, self.grid, self.devices, summed_axes))
        self._note("sum", summed_axes, total)
        return total

    # Communication; see `mtf.MeshImpl` for what each does.

    def _note(self, kind, mesh_axes, x, distance=0):
        """Notes an exchange of the slices of a laid-out tensor."""
        if mesh_axes:
            nbytes = math.prod(x.slice_shape) * x.dtype.size
            self.exchanged.append(Exchange(kind, tuple(sorted(set(mesh_axes))), nbytes, distance))

    def allreduce(self, x, mesh_axes, reduction_fn_string):
        x = x.to_laid_out_tensor()
        self._note("sum", mesh_axes, x)
        stacks = x.tensor_list
        return LaidOutTensor(collectives.allreduce(stacks, self.grid, self.devices, mesh_axes, reduction_fn_string))

    def allconcat(self, x, mesh_axis, concat_axis):
        return self.gather(x, {mesh_axis: concat_axis})

    def gather(self, x, dims):
        """`allconcat` along several mesh dimensions at once: `dims` is {mesh axis: dimension of a slice}."""
        self._note("gather", dims, x.to_laid_out_tensor())
        stacks = x.to_laid_out_tensor().tensor_list
        return LaidOutTensor(collectives.allconcat(stacks, self.grid, self.devices, dims)) if dims else x

    def alltoall(self, x, mesh_axis, split_axis, concat_axis):
        self._note("all-to-all", [mesh_axis], x.to_laid_out_tensor())
        stacks = x.to_laid_out_tensor().tensor_list
        return LaidOutTensor(collectives.alltoall(stacks, self.grid, self.devices, mesh_axis, split_axis, concat_axis))

    def allsplit(self, x, mesh_axis, split_axis, which=None):
        if which is not None:
            return super().allsplit(x, mesh_axis, split_axis, which)
        return self.scatter(x, {mesh_axis: split_axis})

    def scatter(self, x, dims):
        """`allsplit` along several mesh dimensions at once: `dims` is {mesh axis: dimension of a slice}."""
        stacks = x.to_laid_out_tensor().tensor_list
        return LaidOutTensor(collectives.allsplit(stacks, self.grid, self.devices, dims)) if dims else x

    def receive(self, x, mesh_axis, source_pcoord, fill=0):
        """As `mtf.MeshImpl.receive`; a processor with no source gets a tensor of `fill`."""
        distances = {to - source for to, source in enumerate(source_pcoord) if source is not None} - {0}
        for distance in sorted(distances):  # empty if a margin is wider than all neighbors together
            self._note("halo", [mesh_axis], x.to_laid_out_tensor(), distance)
        stacks = x.to_laid_out_tensor().tensor_list
        return LaidOutTensor(collectives.receive(stacks, self.grid, self.devices, mesh_axis, source_pcoord, fill))

    # Coordinates and random numbers.

    def laid_out_constant(self, value_of):
        """`value_of(mesh coordinates of a processor) -> numpy array or number`, one for each processor."""
        shards = self.grid.shard_coordinates()
        return LaidOutTensor(
            tf.constant(np.array([value_of(at) for at in self.grid.processor_coordinates(shard)])) for shard in shards
        )

    def laid_out_pnum(self):
        sizes = self.grid.mesh
        strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        return self.laid_out_constant(lambda at: np.int32(sum(c * s for c, s in zip(at, strides))))

    def laid_out_pcoord(self, mesh_axis):
        return self.laid_out_constant(lambda at: np.int32(at[mesh_axis]))

    def random(self, shape, tf_fn, kwargs):
        """Draws for `mtf.random_uniform` and `mtf.random_normal`; the layout does not change the values."""
        key = self.random_state.next_key()
        return random.draw(self, shape, tf_fn.__name__, key, kwargs)

    # In and out.

    def import_tf_tensor(self, x, tf_x):
        """Sends each shard its own of a whole tensor, which lies on the host."""
        return LaidOutTensor(whole.scatter(tf_x, self.split_axes(x.shape), self.grid, self.devices, self.host))

    def export_to_tf_tensor(self, x, laid_out_x):
        """The whole tensor of a laid-out one, on the host: no device needs room for it."""
        stacks = self.canonical(laid_out_x.to_laid_out_tensor(), x.shape).tensor_list
        return whole.gather(stacks, self.split_axes(x.shape), self.grid, self.devices, self.host)

    def Print(self, x, data, message, **kwargs):
        with tf.control_dependencies([tf.print(message, *[d.tensor_list[0] for d in data], **kwargs)]):
            return self.map_stacks(tf.identity, x.to_laid_out_tensor())
