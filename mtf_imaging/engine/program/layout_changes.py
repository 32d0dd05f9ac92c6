"""Lists where a program changes the slices of tensors, with the bytes that this takes."""

import dataclasses
import functools
import logging
import math
from collections.abc import Iterable

from mtf_imaging.engine import upstream
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.ops.reshard import SUFFIX, Reshard
from mtf_imaging.engine.reads import all_operations

_BACKWARD = "/gradients/"  # in the names of the operations that `mtf.gradients` adds
_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class LayoutChange:
    """How an operation changes the slices of a tensor.

    Attributes:
      name: name of the operation.
      whole: sizes of the tensor.
      before: sizes of a slice before the operation.
      after: sizes of a slice after it.
      nbytes: bytes of a slice after it, in each processor.
      gathered: names of the dimensions that the operation gathers.
      scattered: names of the dimensions that it splits again.
    """

    name: str
    whole: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    nbytes: int
    gathered: tuple[str, ...]
    scattered: tuple[str, ...] = ()

    def __str__(self) -> str:
        verbs = {"gathers": self.gathered, "splits": self.scattered}
        does = ", ".join(f"{verb} {' and '.join(names)}" for verb, names in verbs.items() if names)
        before, after = (" x ".join(map(str, sizes)) for sizes in (self.before, self.after))
        return f"{self.name} {does}: slices of {before} become {after} ({self.nbytes:,} bytes)"


def layout_changes(graph: mtf.Graph, mesh_impl: ShardMeshImpl) -> list[LayoutChange]:
    """Returns the layout changes in the forward pass of a graph for which the layout has a rule.

    They are those of `gather_slices` and `scatter_slices`, and of operations that need all of a split dimension, such
    as a concatenation along it.
    """
    operations = [op for op in all_operations(graph) if _BACKWARD not in op.name]
    # By name, because a recomputed operation is in the graph twice.
    changes = {op.name: [*_changes(op, mesh_impl)] for op in operations}
    return [change for of_operation in changes.values() for change in of_operation]


@functools.cache  # logs once, even if many programs have the same network
def log_change(change: LayoutChange) -> None:
    """Logs a layout change."""
    _logger.info("%s", change)


def _changes(op: mtf.Operation, mesh: ShardMeshImpl) -> Iterable[LayoutChange]:
    if isinstance(op, Reshard):
        (x,), (y,) = op.inputs, op.outputs
        if mesh.split_axes(x.shape) != mesh.split_axes(y.shape):
            names = list(zip(x.shape.dimension_names, y.shape.dimension_names, strict=True))
            gathered = tuple(old for old, new in names if new == old + SUFFIX)
            scattered = tuple(new for old, new in names if old == new + SUFFIX)
            yield _change(op, x, mesh, mesh.slice_shape(y.shape), gathered, scattered)
    for x, axes in upstream.GATHERS.get(type(op), lambda op, mesh: [])(op, mesh):
        gathered = tuple(dim.name for dim, axis in zip(x.shape.dims, mesh.split_axes(x.shape)) if axis in axes)
        yield _change(op, x, mesh, mesh.without(gathered).slice_shape(x.shape), gathered, ())


def _change(
    op: mtf.Operation,
    x: mtf.Tensor,
    mesh: ShardMeshImpl,
    after: list[int],
    gathered: tuple[str, ...],
    scattered: tuple[str, ...],
) -> LayoutChange:
    whole, before = tuple(x.shape.to_integer_list), tuple(mesh.slice_shape(x.shape))
    nbytes = math.prod(after) * x.dtype.size
    return LayoutChange(op.name, whole, before, tuple(after), nbytes, gathered, scattered)
