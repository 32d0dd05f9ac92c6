"""The basis of all window operations: their geometry, its legality under a layout, and the exchange of halos.

A window operation consists of its geometry and a local TensorFlow function. `geometry.widened(...)` returns the slices
with their halos, the mesh calls the local function on them, and gradients pass back through `geometry.narrowed(...)`.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout.windows import PADDINGS, Window, plan_adjoint_split, plan_split
from mtf_imaging.engine.meshes import halo
from mtf_imaging.engine.meshes.exchange import Round
from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.engine.ops.inputs import check_tensor
from mtf_imaging.errors import ShapeError
from mtf_imaging.spelling import did_you_mean

Ints = int | Sequence[int]  # one int for all spatial dimensions, or one for each
Padding = str | Sequence[tuple[int, int]]  # "SAME", "VALID", or voxels (before, after) of each spatial dimension


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The spatial dimensions of a window operation and the windows that slide over them.

    Attributes:
      names: names of the spatial dimensions.
      sizes: sizes of the spatial dimensions that the windows slide over, such as the sizes of a convolution's input.
      windows: the `Window` of each dimension.
      batch_ndims: number of dimensions before the spatial dimensions.
      pads_itself: whether the geometry pads slices even if no dimension is split, so that the local functions always
          have VALID padding. It always does so if TensorFlow has no padding that gives the same windows.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    windows: tuple[Window, ...]
    batch_ndims: int
    pads_itself: bool = False

    @property
    def outputs(self) -> tuple[int, ...]:
        """Number of windows along each dimension."""
        return tuple(w.output_size(n) for w, n in zip(self.windows, self.sizes))

    @property
    def padding(self) -> str | None:
        """TensorFlow's padding that gives the same windows, or None."""
        first = self.windows[0].padding
        for padding in [first] if isinstance(first, str) else PADDINGS:
            if all(w.equals(padding, n) for w, n in zip(self.windows, self.sizes)):
                return padding
        return None

    def margins(self, mesh: ShardMeshImpl) -> list[halo.Margin]:
        """Returns the margin of each spatial dimension, or [] if no dimension is split and the local function pads.

        If one dimension is split, the other dimensions get margins as well, because one copy adds all margins.
        """
        axes = [mesh.split_axes(mtf.Shape([mtf.Dimension(name, 0)]))[0] for name in self.names]
        if all(axis is None for axis in axes) and not self.pads_itself and self.padding is not None:
            return []
        margins = []
        for i, (axis, size, window) in enumerate(zip(axes, self.sizes, self.windows)):
            dim = self.batch_ndims + i
            if axis is None:
                margins.append(halo.Margin(dim, size, *window.pads(size)))
                continue
            plan = plan_split(window, size, mesh.shape[axis].size)
            margins.append(halo.Margin(dim, plan.size, plan.before, plan.after, axis, plan))
        return margins

    def local_padding(self, mesh: ShardMeshImpl) -> str:
        """Returns the padding that the local function applies."""
        return "VALID" if self.margins(mesh) else self.padding or "VALID"

    def widened(self, mesh: ShardMeshImpl, x: LaidOutTensor, fill: float = 0) -> LaidOutTensor:
        """Returns the slices of `x` with all voxels that their windows need.

        Operations with the same geometry share the result. The tails of `x` must be `fill`.
        """
        key = (self, fill)
        if key not in x.widened:
            x.widened[key] = halo.widen(mesh, x, self.margins(mesh), fill)
        return x.widened[key]

    def widening(self, mesh: ShardMeshImpl, x: mtf.Tensor, fill: float = 0) -> Round:
        """Returns the exchanges of `widened`."""
        exchanges = halo.exchanges(mesh, self.margins(mesh), mesh.slice_shape(x.shape), x.dtype.size)
        return Round(exchanges, once=(x, (self, fill)))

    def wide_shape(self, mesh: ShardMeshImpl) -> list[int]:
        """Returns the size of a widened slice along each spatial dimension, in voxels."""
        return [m.width for m in self.margins(mesh)] or list(self.sizes)

    @property
    def is_sliding_adjoint(self) -> bool:
        """Whether the adjoint is a window of the same kind that slides over the windows.

        With stride 1 and as many windows as voxels, voxel i is in the windows from `i - (extent - 1 - pad)` to
        `i + pad`, so its gradient is a window over their gradients.
        """
        if any(w.stride > 1 or w.padding == "VALID" for w in self.windows) or self.outputs != self.sizes:
            return False
        return min(min(pair) for pair in self._adjoint_pads) >= 0

    @property
    def _adjoint_pads(self) -> list[tuple[int, int]]:
        return [w.pads(n)[::-1] for w, n in zip(self.windows, self.sizes)]

    def adjoint_margins(self, mesh: ShardMeshImpl) -> list[halo.Margin] | None:
        """Returns the margins of slices of `y` from which each processor computes the adjoint at its own voxels.

        Returns None if the adjoint is computed in the margins of `x` instead, whose parts are then added (`narrowed`).
        Where the adjoint is a sliding window, margins of `y` are less work. Turns also use them for other windows: the
        order in which the parts of a voxel are added, and so its last bits, would depend on the number of turns.
        """
        margins = self.margins(mesh)
        if not margins:
            return None
        if self.is_sliding_adjoint:
            return [halo.Margin(m.dim, m.size, *pad, m.mesh_axis) for m, pad in zip(margins, self._adjoint_pads)]
        if not any(m.mesh_axis is not None and mesh.grid.is_in_turns(m.axis) for m in margins):
            return None
        wide = []
        for m, window, size, outputs in zip(margins, self.windows, self.sizes, self.outputs):
            if m.mesh_axis is None:
                wide.append(halo.Margin(m.dim, outputs, 0, 0))
            else:
                plan = plan_adjoint_split(window, size, m.plan.parts).windows
                wide.append(halo.Margin(m.dim, plan.size, plan.before, plan.after, m.axis, plan))
        return wide

    def adjoint_cuts(self, mesh: ShardMeshImpl) -> list[halo.Margin]:
        """Returns the margins that cut each processor's own voxels out of those that its `adjoint_margins` cover."""
        cuts = []
        for m, window, size in zip(self.margins(mesh), self.windows, self.sizes):
            if m.mesh_axis is None:
                cuts.append(halo.Margin(m.dim, m.before + m.size + m.after, -m.before, -m.after))
            else:
                cut = plan_adjoint_split(window, size, m.plan.parts).cut
                cuts.append(halo.Margin(m.dim, cut.size, 0, 0, m.axis, cut))
        return cuts

    def is_its_own_adjoint(self, mesh: ShardMeshImpl) -> bool:
        """Returns whether the adjoint of the local function is a local function of the same kind.

        If so, its slices are widened by `adjoint_margins`, or padded if no dimension is split.
        """
        if self.margins(mesh):
            return self.is_sliding_adjoint
        return self.padding == "SAME" and all(w.stride == 1 and w.extent % 2 for w in self.windows)

    def adjoint_widened(self, mesh: ShardMeshImpl, y: LaidOutTensor) -> LaidOutTensor:
        """Returns the slices of `y` with their `adjoint_margins`, which must not be None.

        Operations with the same geometry share the result. The tails of `y` must be 0.
        """
        key = (self, "adjoint")
        if key not in y.widened:
            margins = self.adjoint_margins(mesh)
            assert margins is not None
            y.widened[key] = halo.widen(mesh, y, margins)
        return y.widened[key]

    def adjoint_widening(self, mesh: ShardMeshImpl, y: mtf.Tensor) -> Round:
        """Returns the exchanges of `adjoint_widened`."""
        margins = self.adjoint_margins(mesh)
        assert margins is not None
        exchanges = halo.exchanges(mesh, margins, mesh.slice_shape(y.shape), y.dtype.size)
        return Round(exchanges, once=(y, (self, "adjoint")))

    def narrowed(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """Returns slices without halos: the adjoint of `widened`, which adds each halo to the neighbor's slice."""
        return halo.narrow(mesh, dx, self.margins(mesh))

    def narrowing(self, mesh: ShardMeshImpl, shape: mtf.Shape, dtype: tf.DType) -> Round:
        """Returns the exchanges of `narrowed` for a tensor of a shape and a dtype."""
        return Round(halo.exchanges(mesh, self.margins(mesh), mesh.slice_shape(shape), dtype.size, adjoint=True))

    def summed_axes(self, mesh: ShardMeshImpl, batch_dims: Iterable[mtf.Dimension]) -> list[int]:
        """Returns the mesh axes over which a sum along the batch and spatial dimensions must be reduced."""
        dims = list(batch_dims) + [mtf.Dimension(name, 0) for name in self.names]
        return [axis for axis in mesh.split_axes(mtf.Shape(dims)) if axis is not None]


def make_geometry(
    title: str,
    x: mtf.Tensor,
    num_spatial: int,
    kernel: Ints,
    strides: Ints,
    dilations: Ints,
    padding: Padding,
    sizes: Sequence[int] | None = None,
    pads_itself: bool = False,
) -> Geometry:
    """Returns the geometry of a window operation.

    Args:
      title: kind and name of the operation, for error messages.
      x: Tensor[batch..., spatial..., channels]
      num_spatial: number of spatial dimensions, 1, 2 or 3.
      kernel: size of the kernel in taps: an int, or one for each spatial dimension.
      strides: an int, or one for each spatial dimension.
      dilations: an int, or one for each spatial dimension.
      padding: "SAME", "VALID", or a pair (before, after) for each spatial dimension.
      sizes: the sizes that the windows slide over. None uses the sizes of `x`.
      pads_itself: see `Geometry`.

    Raises:
      ShapeError: `x` has too few dimensions, the padding is wrong, or a window is larger than the padded sizes.
    """
    check_tensor(title, x)
    dims = x.shape.dims
    if len(dims) < num_spatial + 2:
        raise ShapeError(
            f"{title} needs at least {num_spatial + 2} dimensions (batch, {num_spatial} spatial dimensions, channels), "
            f"but its input has {len(dims)}: {x.shape}"
        )
    spatial = dims[-1 - num_spatial : -1]
    windows = make_windows(title, num_spatial, kernel, strides, dilations, padding)
    # TensorFlow's SAME padding is wrong if the stride is larger than the window (2.21, conv3d on the CPU).
    pads_itself = pads_itself or any(w.stride > w.extent for w in windows)
    sizes = tuple(sizes or (d.size for d in spatial))
    for dim, size, window in zip(spatial, sizes, windows):
        if window.output_size(size) < 1:
            least = max(window.extent - sum(window.explicit), window.cropped + 1)
            raise ShapeError(
                f"{title}: a window of {window.extent} voxels does not fit '{dim.name}' (size {size}) with padding "
                f"{window.padding!r}. Fix: make '{dim.name}' at least {least}, or use padding 'SAME'."
            )
    return Geometry(tuple(d.name for d in spatial), sizes, windows, len(dims) - num_spatial - 1, pads_itself)


def make_windows(
    title: str, num_spatial: int, kernel: Ints, strides: Ints, dilations: Ints, padding: Padding
) -> tuple[Window, ...]:
    """Returns the `Window` of each spatial dimension; `make_geometry` describes the arguments."""
    strides = per_dimension(title, "strides", strides, num_spatial)
    dilations = per_dimension(title, "dilations", dilations, num_spatial)
    kernel = per_dimension(title, "kernel", kernel, num_spatial)
    named = padding.upper() if isinstance(padding, str) else ""
    pads = [named] * num_spatial if named in PADDINGS else _pairs(title, padding, num_spatial)
    try:
        return tuple(Window(*arguments) for arguments in zip(kernel, strides, dilations, pads, strict=True))
    except ShapeError as error:
        raise ShapeError(f"{title}: {error}") from None


def _pairs(title: str, padding: object, num_spatial: int) -> list[Any]:
    """Returns the explicit padding of each spatial dimension; its `Window` checks the numbers."""
    pairs = padding if isinstance(padding, (tuple, list)) else ()
    if len(pairs) != num_spatial or not all(isinstance(pair, (tuple, list)) for pair in pairs):
        hint = did_you_mean(padding.upper(), PADDINGS) if isinstance(padding, str) else ""
        example = f"[{', '.join(['(1, 1)'] * num_spatial)}]"
        raise ShapeError(
            f"{title}: padding must be 'SAME', 'VALID' or {num_spatial} pairs (before, after), one for each spatial "
            f"dimension, not {padding!r}.{hint} Fix: use one of these names, or pairs such as {example}."
        )
    return [tuple(pair) for pair in pairs]


def per_dimension(title: str, what: str, value: Ints, num_spatial: int) -> tuple[int, ...]:
    """Returns a tuple with an int for each spatial dimension, given the tuple or one int for all dimensions."""
    values: tuple[Any, ...] = tuple(value) if isinstance(value, (tuple, list)) else (value,) * num_spatial
    if len(values) != num_spatial or not all(isinstance(v, int) for v in values):
        raise ShapeError(f"{title}: {what} must be an int or {num_spatial} of them, not {value!r}")
    return values


class WindowOperation(mtf.Operation):
    """Base class of operations with a `Geometry`.

    Subclasses set `_outputs`, and define `lower`, `gradient` and `exchanges`.
    """

    def __init__(self, kind: str, inputs: Sequence[mtf.Tensor], geometry: Geometry, name: str | None) -> None:
        super().__init__(inputs, name=name or kind)
        self.kind = kind
        self.geometry = geometry

    def _spatial_dims(self, sizes: Sequence[int]) -> list[mtf.Dimension]:
        return [mtf.Dimension(name, size) for name, size in zip(self.geometry.names, sizes)]


def first_axis(mesh: ShardMeshImpl, dim: mtf.Dimension) -> int | None:
    """Returns the mesh axis that splits a dimension, or None."""
    return mesh.split_axes(mtf.Shape([dim]))[0]
