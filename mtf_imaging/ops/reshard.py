"""Layouts that change within a network: what is split is gathered, and later split again.

A dimension is split where the layout has a rule for its name. So a gathered tensor is the same tensor with another name
of a dimension, one that no rule speaks of: gathered, "x" is called "x_whole". The processors along the mesh dimension
that split it then all hold the same, and all do the same work, until it is split again.

Which dimensions to gather may follow from how small their slices are: a network can ask, with `num_slices`. It then is
another graph under another layout, but its results are those of the whole tensors, as ever.
"""

import dataclasses
import math

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.meshes.exchange import Exchange, Round

_SUFFIX = "_whole"


class ProgramMesh(mtf.Mesh):
    """The mesh of a program's graph, which knows into how many slices the program's layout cuts a dimension.

    Args:
      graph: an `mtf.Graph`.
      mesh_shape: pairs (mesh dimension, size).
      layout: pairs (tensor dimension, mesh dimension).

    Attributes:
      num_slices: number of slices by dimension, of those with a rule.
      asked: whether a network asked for it: what it made then holds for this layout only.
    """

    def __init__(self, graph, mesh_shape, layout):
        super().__init__(graph, "mesh")
        sizes = dict(mesh_shape)
        self.num_slices = {dim: sizes.get(onto, 1) for dim, onto in layout}  # rules of no sense are found later
        self.asked = False


class Regather(mtf.Operation):
    """The same tensor under other names of its dimensions, of which the layout may split others.

    Its gradient goes the other way: gathered voxels are equal on all processors that hold them, and so is what becomes
    of them, so that each takes its own slice of the gradient. A sum over processors would count it once for each.
    """

    kind = "regather"

    def __init__(self, x, shape, name):
        super().__init__([x], name=name)
        self._outputs = [mtf.Tensor(self, shape, x.dtype)]

    def gradient(self, grad_ys):
        return [RegatherGrad(grad_ys[0], self.inputs[0].shape, f"{self.kind}_dx").outputs[0]]

    def lower(self, lowering):
        mesh, (x,), (y,) = lowering.mesh_impl(self), self.inputs, self.outputs
        axes = zip(mesh.split_axes(x.shape), mesh.split_axes(y.shape), strict=True)
        changed = [(dim, old, new) for dim, (old, new) in enumerate(axes) if old != new]
        value = lowering.tensors[x].to_laid_out_tensor()
        value = mesh.gather(value, {old: dim for dim, old, _ in changed if old is not None})
        value = mesh.scatter(value, {new: dim for dim, _, new in changed if new is not None})
        lowering.set_tensor_lowering(y, value)

    def exchanges(self, mesh):
        (x,), (y,) = self.inputs, self.outputs
        axes = zip(mesh.split_axes(x.shape), mesh.split_axes(y.shape), strict=True)
        gathered = tuple(sorted(old for old, new in axes if old not in (None, new)))
        nbytes = math.prod(mesh.slice_shape(x.shape)) * x.dtype.size
        return [Round([Exchange("gather", gathered, nbytes)])] if gathered else []


class RegatherGrad(Regather):
    """The gradient of a `Regather`: one that no network asked for."""


@dataclasses.dataclass(frozen=True)
class LayoutChange:
    """What a `gather_slices` or `scatter_slices` makes of the slices of a tensor.

    Attributes:
      name: of the operation.
      whole: size of each dimension of the tensor.
      before: of the slice that one processor holds of it, before the operation.
      after: and after it.
    """

    name: str
    whole: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def __str__(self):
        before, after = (" x ".join(map(str, sizes)) for sizes in (self.before, self.after))
        return f"{self.name}: slices of {before} become {after}"


def layout_changes(graph, mesh_impl):
    """The `LayoutChange`s of the operations of a graph, but those of its gradients."""
    changes = {}  # by name: what is recomputed is there twice
    for op in graph.operations:
        if type(op) is Regather:
            (x,), (y,) = op.inputs, op.outputs
            before, after = (tuple(mesh_impl.slice_shape(tensor.shape)) for tensor in (x, y))
            changes[op.name] = LayoutChange(op.name, tuple(x.shape.to_integer_list), before, after)
    return list(changes.values())


def num_slices(x):
    """Into how many slices the layout cuts each dimension of a tensor: {name: number}, 1 for a whole one."""
    x.mesh.asked = True
    known = getattr(x.mesh, "num_slices", {})
    return {dim.name: known.get(dim.name, 1) for dim in x.shape.dims}


def gather_slices(x, names, name=None):
    """Gathers dimensions: each processor gets all slices along the mesh dimensions that split them.

    `"x"` is replaced with `"x_whole"`. What comes of it is computed by all processors along the mesh dimension, each
    for itself, until `scatter_slices`. Values and gradients are those of `x`.

    Sent is each slice to all processors along the mesh dimension, forward; nothing backward. Where processors share a
    device, it holds and computes a tensor that nothing splits any more once, but one that is still split once for each
    of its processors.

    Args:
      x: Tensor[...]
      names: names of dimensions of `x`, or one; for none, `x` itself is returned.
      name: name of the operation, by which `train --dry_run` shows it.

    Raises:
      ShapeError: `x` has no dimension of that name.
    """
    return _renamed(x, {of: of + _SUFFIX for of in _listed(names)}, name or "gather_slices")


def scatter_slices(x, names, name=None):
    """Splits gathered dimensions again: each processor keeps its own slice; the inverse of `gather_slices`.

    `"x_whole"` is replaced with `"x"`. Sent is nothing forward, and backward each slice to all processors.

    Args:
      x: Tensor[...]
      names: names of the dimensions before they were gathered, or one; for none, `x` itself is returned.
      name: name of the operation.

    Raises:
      ShapeError: `x` has no gathered dimension of that name.
    """
    return _renamed(x, {of + _SUFFIX: of for of in _listed(names)}, name or "scatter_slices")


def _listed(names):
    return [names] if isinstance(names, str) else names


def _renamed(x, new_names, name):
    missing = [repr(old) for old in new_names if old not in x.shape.dimension_names]
    if missing:
        raise ShapeError(f"{name}: there is no dimension {' or '.join(missing)}; the tensor has {x.shape}")
    if not new_names:
        return x
    dims = [mtf.Dimension(new_names.get(dim.name, dim.name), dim.size) for dim in x.shape.dims]
    return Regather(x, mtf.Shape(dims), name).outputs[0]
