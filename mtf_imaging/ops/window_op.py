"""What all window ops share: the geometry of their spatial dimensions, its legality under a layout, and halo exchange.

An op is then its geometry and a local TensorFlow function: `geometry.widened(...)` gives slices with their halos, the
mesh calls the local function on them, and gradients go back through `geometry.narrowed(...)`.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ShapeError
from mtf_imaging.layout.windows import Window, check_split, nearest_legal_sizes, plan_split
from mtf_imaging.meshes import halo
from mtf_imaging.meshes.exchange import Round
from mtf_imaging.meshes.laid_out import LaidOutTensor, Lowered
from mtf_imaging.meshes.mesh_impl import ShardMeshImpl
from mtf_imaging.ops.faults import LayoutFault

Ints = int | Sequence[int]  # one for all spatial dimensions, or one for each

_WAY_OUT = "If only deep levels are split too far: gather them, by mi.ops.gather_slices or a network's gather_below."


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The spatial dimensions of a window op: what the windows slide over, and how.

    Attributes:
      names: names of the spatial dimensions.
      sizes: voxels of each, on the side that the windows slide over (the larger one, for a stride).
      windows: a `Window` each.
      batch_ndims: number of dimensions before the spatial ones.
      pads_itself: whether slices are padded here even where nothing is split, so that local functions are always VALID.
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
    def padding(self) -> str:
        return self.windows[0].padding

    def margins(self, mesh: ShardMeshImpl) -> list[halo.Margin]:
        """A `Margin` for each spatial dimension, or [] where the mesh splits none and the local function pads.

        Where some dimension is split, the others are padded along with it: one copy makes all margins.
        """
        axes = [mesh.split_axes(mtf.Shape([mtf.Dimension(name, 0)]))[0] for name in self.names]
        if not self.pads_itself and all(axis is None for axis in axes):
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
        """The padding that the local function applies itself."""
        return "VALID" if self.margins(mesh) else self.padding

    def widened(self, mesh: ShardMeshImpl, x: Lowered, fill: float = 0) -> LaidOutTensor:
        """Slices of `x` with all the voxels that their windows need; made once for every op that asks."""
        x = x.to_laid_out_tensor()
        key = (self, fill)
        if key not in x.widened:
            x.widened[key] = halo.widen(mesh, x, self.margins(mesh), fill)
        return x.widened[key]

    def widening(self, mesh: ShardMeshImpl, x: mtf.Tensor, fill: float = 0) -> Round:
        """What `widened` exchanges of an mtf.Tensor, as a `Round`."""
        found = halo.exchanges(mesh, self.margins(mesh), mesh.slice_shape(x.shape), x.dtype.size)
        return Round(found, once=(x, (self, fill)))

    def wide_shape(self, mesh: ShardMeshImpl) -> list[int]:
        """Voxels of a widened slice along each spatial dimension."""
        margins = self.margins(mesh)
        if not margins:
            return list(self.sizes)
        return [
            m.split.length if m.split is not None and m.split.needs_cut else m.before + m.size + m.after
            for m in margins
        ]

    def adjoint_margins(self, mesh: ShardMeshImpl) -> list[halo.Margin] | None:
        """Margins of slices of windows, for windows that read as the adjoint does; None where there are none.

        With stride 1 and as many windows as voxels, voxel i is in the windows from `i - (extent - 1 - pad)` to
        `i + pad`: its gradient is a window over theirs. That widens the thin side only, where computing the gradient of
        the widened slice would do the work of its margins as well.
        """
        margins = self.margins(mesh)
        if not margins or any(w.stride > 1 or w.padding == "VALID" for w in self.windows):
            return None
        pads = [(w.extent - 1 - w.pads(n)[0], w.pads(n)[0]) for w, n in zip(self.windows, self.sizes)]
        return [halo.Margin(m.dim, m.size, *pad, m.mesh_axis) for m, pad in zip(margins, pads)]

    def is_its_own_adjoint(self, mesh: ShardMeshImpl) -> bool:
        """Whether the local function's adjoint is one of its kind: slices, widened by `adjoint_margins` or padded."""
        if self.margins(mesh):
            return self.adjoint_margins(mesh) is not None
        return all(w.stride == 1 and w.padding == "SAME" and w.extent % 2 for w in self.windows)

    def adjoint_widened(self, mesh: ShardMeshImpl, y: LaidOutTensor) -> LaidOutTensor:
        """Slices of windows with their `adjoint_margins`, which must not be None; made once for every op that asks."""
        key = (self, "adjoint")
        if key not in y.widened:
            margins = self.adjoint_margins(mesh)
            assert margins is not None
            y.widened[key] = halo.widen(mesh, y, margins)
        return y.widened[key]

    def adjoint_widening(self, mesh: ShardMeshImpl, y: mtf.Tensor) -> Round:
        """What `adjoint_widened` exchanges of an mtf.Tensor, as a `Round`."""
        margins = self.adjoint_margins(mesh)
        assert margins is not None
        found = halo.exchanges(mesh, margins, mesh.slice_shape(y.shape), y.dtype.size)
        return Round(found, once=(y, (self, "adjoint")))

    def narrowed(self, mesh: ShardMeshImpl, dx: LaidOutTensor) -> LaidOutTensor:
        """The adjoint of `widened`."""
        return halo.narrow(mesh, dx, self.margins(mesh))

    def narrowing(self, mesh: ShardMeshImpl, dx: mtf.Tensor) -> Round:
        """What `narrowed` exchanges to make an mtf.Tensor, as a `Round`."""
        return Round(halo.exchanges(mesh, self.margins(mesh), mesh.slice_shape(dx.shape), dx.dtype.size, adjoint=True))

    def summed_axes(self, mesh: ShardMeshImpl, batch_dims: Iterable[mtf.Dimension]) -> list[int]:
        """Mesh axes over which a sum over batch and spatial dimensions is spread."""
        dims = list(batch_dims) + [mtf.Dimension(name, 0) for name in self.names]
        return [axis for axis in mesh.split_axes(mtf.Shape(dims)) if axis is not None]

    def layout_faults(self, title: str, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        """The splits of the spatial dimensions that are not legal, as `LayoutFault`s."""
        faults = []
        for name, size, window in zip(self.names, self.sizes, self.windows):
            rule = rules.get(name, "")
            parts = mesh_sizes.get(rule, 1)
            bad = check_split(window, size, parts)
            if not bad:
                continue
            output = window.output_size(size)
            below, above = nearest_legal_sizes(window, size, parts)
            nearest = " and ".join(str(n) for n in (below, above) if n) or "none with this padding and stride"
            fix = f"pad '{name}' to {above}, or drop" if above else "drop"
            why = " and ".join(f"its {which} size {n} is not divisible by {parts}" for which, n in bad)
            text = (
                f"{title}: cannot split '{name}' (size {size}) over '{rule}' (size {parts}): with kernel "
                f"{window.kernel}, stride {window.stride}, {window.padding} {size} voxels hold {output} windows, "
                f"and {why}, nearest legal: {nearest}. Fix: {fix} '{name}:{rule}'."
            )
            key = (name, size, window, rule)
            faults.append(
                LayoutFault(text, frozenset({(name, size), (name, output)}), key, _WAY_OUT, ("gather_below",))
            )
        return faults


def make_geometry(
    title: str,
    x: mtf.Tensor,
    num_spatial: int,
    kernel: Ints,
    strides: Ints,
    dilations: Ints,
    padding: str,
    sizes: Sequence[int] | None = None,
    pads_itself: bool = False,
) -> Geometry:
    """The geometry of an op on `x: Tensor[batch..., spatial..., channels]`.

    Args:
      title: what to call the op in an error.
      x: an `mtf.Tensor`.
      num_spatial: 2 or 3.
      kernel: taps, for each spatial dimension.
      strides: an int, or one for each spatial dimension.
      dilations: likewise.
      padding: "SAME" or "VALID".
      sizes: the sizes that the windows slide over, where those are not `x`'s own.
      pads_itself: see `Geometry`.

    Raises:
      ShapeError: too few dimensions, or a window larger than what it slides over.
    """
    dims = x.shape.dims
    if len(dims) < num_spatial + 2:
        raise ShapeError(
            f"{title} needs at least {num_spatial + 2} dimensions (batch, {num_spatial} spatial ones, channels), "
            f"but its input has {len(dims)}: {x.shape}"
        )
    spatial = dims[-1 - num_spatial : -1]
    strides = per_dimension(title, "strides", strides, num_spatial)
    dilations = per_dimension(title, "dilations", dilations, num_spatial)
    kernel = per_dimension(title, "kernel", kernel, num_spatial)
    try:
        windows = tuple(Window(k, s, d, padding) for k, s, d in zip(kernel, strides, dilations))
    except ShapeError as error:
        raise ShapeError(f"{title}: {error}") from None
    # TensorFlow's own SAME is wrong in float64 where the stride is larger than the window (2.21, conv3d on the CPU).
    pads_itself = pads_itself or any(w.stride > w.extent for w in windows)
    sizes = tuple(sizes or (d.size for d in spatial))
    for dim, size, window in zip(spatial, sizes, windows):
        if window.output_size(size) < 1:
            raise ShapeError(
                f"{title}: a window of {window.extent} voxels does not fit '{dim.name}' (size {size}) with padding "
                f"'{padding}'. Fix: make '{dim.name}' at least {window.extent}, or use padding 'SAME'."
            )
    return Geometry(tuple(d.name for d in spatial), sizes, windows, len(dims) - num_spatial - 1, pads_itself)


def per_dimension(title: str, what: str, value: Ints, num_spatial: int) -> tuple[int, ...]:
    """An int for all spatial dimensions, or one for each, as a tuple of ints."""
    values: tuple[Any, ...] = tuple(value) if isinstance(value, (tuple, list)) else (value,) * num_spatial
    if len(values) != num_spatial or not all(isinstance(v, int) for v in values):
        raise ShapeError(f"{title}: {what} must be an int or {num_spatial} of them, not {value!r}")
    return values


class WindowOperation(mtf.Operation):
    """An mtf operation with a `Geometry`. Subclasses set `_outputs`, and write `lower`, `gradient` and `exchanges`."""

    def __init__(self, kind: str, inputs: Sequence[mtf.Tensor], geometry: Geometry, name: str | None) -> None:
        super().__init__(inputs, name=name or kind)
        self.kind = kind
        self.geometry = geometry

    def layout_faults(self, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
        """See `Geometry.layout_faults`; the lowering reports them."""
        return self.geometry.layout_faults(f"{self.kind} '{self.name}'", mesh_sizes, rules)

    def _spatial_dims(self, sizes: Sequence[int]) -> list[mtf.Dimension]:
        return [mtf.Dimension(name, size) for name, size in zip(self.geometry.names, sizes)]


def first_axis(mesh: ShardMeshImpl, dim: mtf.Dimension) -> int | None:
    """The mesh axis that splits a dimension, or None."""
    return mesh.split_axes(mtf.Shape([dim]))[0]
