"""Layouts that change within a network: a split dimension is gathered, and split again later.

A layout refers to dimensions by name. A gathered dimension therefore gets another name: "x" becomes "x_whole", which is
not split unless the layout has a rule for it. Until it is split again, all processors along the mesh dimension that
split it hold the same values and do the same work.

A network may choose the dimensions to gather by the size of their slices, with `slices_per_dimension`. Its graph then
depends on the layout, but its results do not.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.meshes import tails
from mtf_imaging.engine.meshes.exchange import Exchange, Round
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.errors import ShapeError

SUFFIX = "_whole"  # of the name of a gathered dimension


class ProgramMesh(mtf.Mesh):
    """The mesh of a program's graph, with the number of slices of each dimension under the program's layout.

    Args:
      graph: an `mtf.Graph`.
      mesh_shape: pairs (mesh dimension, size).
      layout: pairs (tensor dimension, mesh dimension).

    Attributes:
      slices_per_dimension: {name: number of slices} for the dimensions with a rule.
      asked: whether a network read these numbers. Its graph is then valid for this layout only.
      gradients: the gradients of weights, which only the update reads.
      label_values: {tensor: the values that its elements may have}; see `ops.expect_labels`.
    """

    def __init__(
        self, graph: mtf.Graph, mesh_shape: Iterable[tuple[str, int]], layout: Iterable[tuple[str, str]]
    ) -> None:
        super().__init__(graph, "mesh")
        sizes = dict(mesh_shape)
        self.slices_per_dimension = {dim: sizes.get(onto, 1) for dim, onto in layout}  # Faults are reported later.
        self.asked = False
        self.gradients: set[mtf.Tensor] = set()
        self.label_values: dict[mtf.Tensor, frozenset[int]] = {}


class Reshard(mtf.Operation):
    """The same tensor with some dimensions under other names, so that the layout splits other dimensions.

    The gradient renames the dimensions back. All processors that hold a gathered voxel compute the same gradient for
    it, so each processor keeps its own slice. A sum over these processors would count the gradient several times.
    """

    kind = "reshard"

    def __init__(self, x: mtf.Tensor, shape: mtf.Shape, name: str) -> None:
        super().__init__([x], name=name)
        self._outputs = [mtf.Tensor(self, shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
        return [Reshard(grad_ys[0], self.inputs[0].shape, f"{self.kind}_dx").outputs[0]]

    def lower(self, lowering: mtf.Lowering) -> None:
        mesh, (x,), (y,) = lowering.mesh_impl(self), self.inputs, self.outputs
        axes = zip(mesh.split_axes(x.shape), mesh.split_axes(y.shape), strict=True)
        changed = [(dim, old, new) for dim, (old, new) in enumerate(axes) if old != new]
        value = lowering.tensors[x].to_laid_out_tensor()
        sizes = dict(enumerate(x.shape.to_integer_list))
        value = tails.gather(mesh, value, {old: dim for dim, old, _ in changed if old is not None}, sizes)
        value = tails.scatter(mesh, value, {new: dim for dim, _, new in changed if new is not None})
        lowering.set_tensor_lowering(y, value)

    def exchanges(self, mesh: ShardMeshImpl) -> list[Round]:
        (x,), (y,) = self.inputs, self.outputs
        axes = zip(mesh.split_axes(x.shape), mesh.split_axes(y.shape), strict=True)
        gathered = tuple(sorted(old for old, new in axes if old not in (None, new)))
        nbytes = math.prod(mesh.slice_shape(x.shape)) * x.dtype.size
        return [Round([Exchange("gather", gathered, nbytes)])] if gathered else []


def slices_per_dimension(x: mtf.Tensor) -> dict[str, int]:
    """Returns a tensor's number of slices along each dimension under the program's layout.

    Args:
      x: Tensor[...]

    Returns:
      A dict {dimension name: number of slices}, with 1 for dimensions that are not split.
    """
    x.mesh.asked = True
    slices = getattr(x.mesh, "slices_per_dimension", {})
    return {dim.name: slices.get(dim.name, 1) for dim in x.shape.dims}


def gather_slices(x: mtf.Tensor, names: str | Sequence[str], name: str | None = None) -> mtf.Tensor:
    """Gathers dimensions: each processor gets all slices along the mesh dimensions that split them.

    The dimension `"x"` becomes `"x_whole"`. All processors along the mesh dimension repeat the operations that follow,
    up to `scatter_slices`. Values and gradients do not change.

    In the forward pass, each processor sends its slice to all processors along the mesh dimension. The backward pass
    sends nothing. Processors that share a device also share one copy of the tensor, unless another of its dimensions is
    still split. In that case, each processor has its own copy.

    Args:
      x: Tensor[...]
      names: one or more dimension names of `x`. With an empty list, the function returns `x` itself.
      name: name of the operation, which appears in reports.

    Returns:
      Tensor[...] with the values of `x` and the new dimension names.

    Raises:
      ShapeError: `x` has no dimension of that name.
    """
    return _rename(x, {dim: dim + SUFFIX for dim in _as_list(names)}, name or "gather_slices")


def scatter_slices(x: mtf.Tensor, names: str | Sequence[str], name: str | None = None) -> mtf.Tensor:
    """Splits gathered dimensions again: each processor keeps its own slice.

    This is the inverse of `gather_slices`: the dimension `"x_whole"` becomes `"x"`. The forward pass sends nothing. In
    the backward pass, each processor sends its slice of the gradient to all processors along the mesh dimension.

    Args:
      x: Tensor[...]
      names: one or more names that the dimensions had before `gather_slices`. With an empty list, the function returns
        `x` itself.
      name: name of the operation, which appears in reports.

    Returns:
      Tensor[...] with the values of `x` and the original dimension names.

    Raises:
      ShapeError: `x` has no gathered dimension of that name.
    """
    return _rename(x, {dim + SUFFIX: dim for dim in _as_list(names)}, name or "scatter_slices")


def _as_list(names: str | Sequence[str]) -> Sequence[str]:
    return [names] if isinstance(names, str) else names


def _rename(x: mtf.Tensor, new_names: Mapping[str, str], name: str) -> mtf.Tensor:
    missing = [repr(old) for old in new_names if old not in x.shape.dimension_names]
    if missing:
        raise ShapeError(f"{name}: there is no dimension {' or '.join(missing)}; the tensor has {x.shape}")
    if not new_names:
        return x
    dims = [mtf.Dimension(new_names.get(dim.name, dim.name), dim.size) for dim in x.shape.dims]
    return Reshard(x, mtf.Shape(dims), name).outputs[0]
