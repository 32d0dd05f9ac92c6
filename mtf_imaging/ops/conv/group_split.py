"""How a layout splits the groups of a convolution over processors.

Every processor computes whole groups, so it needs the same groups of input channels and output channels. The groups are
split over the mesh dimension that splits the output channels or, if they are not split, the input channels. If a tensor
has all channels in every slice, each processor takes those of its groups, and results are gathered. If the channels of
a tensor are split over another mesh dimension, they are gathered first.

A convolution with a single group does none of this. It sums over the processors that split its input channels.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.meshes.exchange import Exchange, Round
from mtf_imaging.meshes.laid_out import LaidOutTensor
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.ops.faults import LayoutFault, cannot_split
from mtf_imaging.ops.window_op import first_axis


@dataclasses.dataclass(frozen=True)
class GroupSplit:
    """The channels of a grouped convolution.

    Attributes:
      inputs: the channels of the input.
      filter_inputs: the filter's input channels: those of one group, under another name. Equal to `inputs` if there is
        only one group.
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
        return self.number if axis is None else self.number // mesh.shape[axis].size

    def split_shape(self, mesh: ShardMeshImpl, shape: mtf.Shape) -> mtf.Shape:
        """Returns the shape of a tensor whose last dimension, its channels, is split like the groups."""
        if self.number == 1:
            return shape
        *dims, channels = shape.dims
        return mtf.Shape([*dims, mtf.Dimension(self._split_dim(mesh).name, channels.size)])

    def _moves(self, mesh: ShardMeshImpl, channels: mtf.Dimension) -> tuple[int | None, int | None]:
        """Returns the mesh axes that split the channels of a tensor and that split the groups."""
        if self.number == 1:
            return None, None
        return first_axis(mesh, channels), first_axis(mesh, self._split_dim(mesh))

    def split(self, mesh: ShardMeshImpl, x: LaidOutTensor, channels: mtf.Dimension) -> LaidOutTensor:
        """Returns the slices of a tensor, whose last dimension is `channels`, with the channels of the groups."""
        return _moved(mesh, x, *self._moves(mesh, channels))

    def splitting(
        self, mesh: ShardMeshImpl, slice_shape: Sequence[int], itemsize: int, channels: mtf.Dimension
    ) -> list[Round]:
        """Returns the exchanges of `split` for slices of a given shape."""
        return _moving(slice_shape, itemsize, *self._moves(mesh, channels))

    def merged(self, mesh: ShardMeshImpl, y: LaidOutTensor, channels: mtf.Dimension) -> LaidOutTensor:
        """The inverse of `split`."""
        old, new = self._moves(mesh, channels)
        return _moved(mesh, y, new, old)

    def merging(self, mesh: ShardMeshImpl, y: mtf.Tensor, channels: mtf.Dimension) -> list[Round]:
        """Returns the exchanges of `merged`."""
        old, new = self._moves(mesh, channels)
        return _moving(mesh.slice_shape(self.split_shape(mesh, y.shape)), y.dtype.size, new, old)

    def layout_faults(self, title: str, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        """Returns a fault for each split of channels that splits a group."""
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
            elif self.number % parts:
                why = f"its {self.number} groups are not divisible by {parts}"
                fix = f"use a mesh dimension whose size divides {self.number}"
                faults.append(cannot_split(title, dim, rule, parts, why, fix))
        return faults


def _moved(mesh: ShardMeshImpl, x: LaidOutTensor, old: int | None, new: int | None) -> LaidOutTensor:
    """Returns slices whose last dimension is split over mesh axis `new` instead of `old`; None splits nothing."""
    if old == new:
        return x
    last = len(x.slice_shape) - 1
    if old is not None:
        x = mesh.gather(x, {old: last})
    return x if new is None else mesh.scatter(x, {new: last})


def _moving(slice_shape: Sequence[int], itemsize: int, old: int | None, new: int | None) -> list[Round]:
    """Returns the exchanges of `_moved`."""
    if old is None or old == new:
        return []
    return [Round([Exchange("gather", (old,), math.prod(slice_shape) * itemsize)])]


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
