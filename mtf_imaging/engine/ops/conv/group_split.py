"""How a layout splits the groups of a convolution over processors.

Every processor computes whole groups, so it needs the same groups of input channels and output channels. The groups are
split over the mesh dimension that splits the output channels or, if they are not split, the input channels. If every
slice of a tensor has all channels, each processor takes the channels of its groups, and results are gathered. If the
channels of a tensor are split over another mesh dimension, or into slices that cut groups, they are gathered first.

A convolution with a single group does none of this. It sums over the processors that split its input channels.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Exchange, Round
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.ops.faults import LayoutFault, cannot_split
from mtf_imaging.engine.ops.window_op import first_axis
from mtf_imaging.errors import ShapeError


class _Move(NamedTuple):
    """A conversion of channel slices from a tensor's own layout to the layout of the groups.

    Attributes:
      old: the mesh axis that splits the channels of the tensor, or None.
      new: the mesh axis that splits the groups, or None.
      size: number of channels.
      padded: number of channels for which all processors along `new` have room together.
    """

    old: int | None
    new: int | None
    size: int
    padded: int


@dataclasses.dataclass(frozen=True)
class GroupSplit:
    """The channels of a grouped convolution.

    Attributes:
      inputs: the channels of the input.
      filter_inputs: the filter's input channels, which are the channels of one group under another name. Equal to
          `inputs` if there is only one group.
      outputs: the channels of the output, which are the last dimension of the filter.
    """

    inputs: mtf.Dimension
    filter_inputs: mtf.Dimension
    outputs: mtf.Dimension

    @property
    def number(self) -> int:
        """The number of groups."""
        return self.inputs.size // self.filter_inputs.size

    def _split_dim(self, mesh: ShardMeshImpl) -> mtf.Dimension:
        """Returns the channels whose mesh dimension splits the groups."""
        return self.inputs if first_axis(mesh, self.outputs) is None else self.outputs

    def per_processor(self, mesh: ShardMeshImpl) -> int:
        """Returns the number of groups that each processor computes."""
        if self.number == 1:
            return 1
        axis = first_axis(mesh, self._split_dim(mesh))
        return self.number if axis is None else -(-self.number // mesh.shape[axis].size)

    def split_shape(self, mesh: ShardMeshImpl, shape: mtf.Shape) -> mtf.Shape:
        """Returns the shape of a tensor whose channels, its last dimension, are split like the groups.

        Every processor has room for the channels of `per_processor` groups.
        """
        if self.number == 1:
            return shape
        *dims, channels = shape.dims
        split_dim = self._split_dim(mesh)
        axis = first_axis(mesh, split_dim)
        parts = 1 if axis is None else mesh.shape[axis].size
        size = parts * self.per_processor(mesh) * (channels.size // self.number)
        return mtf.Shape([*dims, mtf.Dimension(split_dim.name, size)])

    def _move(self, mesh: ShardMeshImpl, channels: mtf.Dimension) -> _Move | None:
        """Returns the conversion of a tensor's slices to the channels of the groups; None if they do not change."""
        if self.number == 1:
            return None
        own, groups = mtf.Shape([channels]), self.split_shape(mesh, mtf.Shape([channels]))
        (old,), (new,) = mesh.split_axes(own), mesh.split_axes(groups)
        if old == new and mesh.slice_shape(own) == mesh.slice_shape(groups):
            return None
        return _Move(old, new, channels.size, groups.dims[0].size)

    def split(self, mesh: ShardMeshImpl, x: LaidOutTensor, channels: mtf.Dimension) -> LaidOutTensor:
        """Converts the slices of a tensor, whose last dimension is `channels`, to the channels of the groups."""
        move, last = self._move(mesh, channels), len(x.slice_shape) - 1
        if move is None:
            return x
        if move.old is not None:
            x = tails.gather(mesh, x, {move.old: last}, {last: move.size})
        return x if move.new is None else mesh.scatter(tails.resize(mesh, x, {last: move.padded}), {move.new: last})

    def splitting(
        self, mesh: ShardMeshImpl, slice_shape: Sequence[int], itemsize: int, channels: mtf.Dimension
    ) -> list[Round]:
        """Returns the exchanges of `split` for slices of a given shape."""
        move = self._move(mesh, channels)
        return [] if move is None else _gathering(slice_shape, itemsize, move.old)

    def merged(self, mesh: ShardMeshImpl, y: LaidOutTensor, channels: mtf.Dimension) -> LaidOutTensor:
        """The inverse of `split`."""
        move, last = self._move(mesh, channels), len(y.slice_shape) - 1
        if move is None:
            return y
        if move.new is not None:
            y = tails.gather(mesh, y, {move.new: last}, {last: move.size})
        return y if move.old is None else tails.scatter(mesh, y, {move.old: last})

    def merging(self, mesh: ShardMeshImpl, y: mtf.Tensor, channels: mtf.Dimension) -> list[Round]:
        """Returns the exchanges of `merged`."""
        move, slice_shape = self._move(mesh, channels), mesh.slice_shape(self.split_shape(mesh, y.shape))
        return [] if move is None else _gathering(slice_shape, y.dtype.size, move.new)

    def layout_faults(self, title: str, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        """Returns a fault if the layout splits the input channels of one group."""
        if self.number == 1:
            return []
        faults = []
        for dim in dict.fromkeys([self.inputs, self.filter_inputs, self.outputs]):
            rule = rules.get(dim.name, "")
            parts = mesh_sizes.get(rule, 1)
            if dim == self.filter_inputs and parts > 1:
                why = f"it is the input of each of {self.number} groups"
                faults.append(
                    cannot_split(title, dim, rule, parts, why, "give the filter's input dimension another name")
                )
        return faults


def _gathering(slice_shape: Sequence[int], itemsize: int, axis: int | None) -> list[Round]:
    """Returns the exchanges that gather slices of a given shape along a mesh axis, or [] for None."""
    if axis is None:
        return []
    return [Round([Exchange("gather", (axis,), math.prod(slice_shape) * itemsize)])]


def check_groups(
    title: str, groups: int, inputs: mtf.Dimension, filter_inputs: mtf.Dimension, outputs: mtf.Dimension
) -> None:
    """Checks the number of groups, and the channels of the input and the filter; see `GroupSplit`.

    Raises:
      ShapeError: they do not fit.
    """
    if type(groups) is not int or groups < 1:
        raise ShapeError(f"{title}: groups must be a positive int, not {groups!r}")
    for what, dim in (("the input's channels", inputs), ("the filter's last dimension", outputs)):
        if dim.size % groups:
            raise ShapeError(
                f"{title}: groups={groups} does not divide {what}, '{dim.name}' (size {dim.size}). "
                "Fix: use a number of groups that divides both the input channels and the output channels."
            )
    if filter_inputs.size != inputs.size // groups:
        raise ShapeError(
            f"{title}: the filter's dimension -2, '{filter_inputs.name}' (size {filter_inputs.size}), must have size "
            f"{inputs.size // groups}: the input's channels, '{inputs.name}' (size {inputs.size}), divided by "
            f"groups={groups}"
        )
    if filter_inputs.name == inputs.name:
        raise ShapeError(
            f"{title}: the filter's dimension -2 (size {filter_inputs.size}) must not have the name of the input's "
            f"channels, '{inputs.name}' (size {inputs.size}), because the sizes differ. Fix: rename it, for example to "
            f"'{inputs.name}_per_group'."
        )
