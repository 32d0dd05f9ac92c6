"""Finds the splits that mesh_tensorflow operations do not support, and suggests fixes."""

from collections.abc import Mapping

from mtf_imaging.engine import compat
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.faults import LayoutFault, cannot_split

_KINDS = {mtf.Variable: "variable"}
_CONVOLUTIONS = {
    mtf.Conv2dOperation: "conv2d",
    mtf.Conv3dOperation: "conv3d",
    mtf.Conv2dTransposeOperation: "conv2d_transpose",
    mtf.Conv3dTransposeOperation: "conv3d_transpose",
}


def title(op: mtf.Operation) -> str:
    """Returns the kind and name of an operation, for error messages."""
    kind = getattr(op, "kind", None) or _KINDS.get(type(op), type(op).__name__)
    return f"{kind} '{op.name}'"


def layout_faults(op: mtf.Operation, mesh_sizes: Mapping[str, int], rules: Mapping[str, str]) -> list[LayoutFault]:
    """Returns the splits that an operation of mesh_tensorflow does not support, as `LayoutFault`s.

    Args:
      op: an `mtf.Operation`.
      mesh_sizes: {mesh dimension: size}.
      rules: {tensor dimension: mesh dimension}.
    """
    reasons, uneven_reasons = _reasons(op), _uneven_reasons(op)
    faults = []
    for dim in dict.fromkeys(dim for t in op.inputs + op.outputs for dim in t.shape.dims):
        mesh_dim = rules.get(dim.name, "")
        parts = mesh_sizes.get(mesh_dim, 1)
        if parts > 1 and (dim in reasons or dim.name in reasons):
            why, fix = reasons.get(dim) or reasons[dim.name]
            faults.append(cannot_split(title(op), dim, mesh_dim, parts, why, fix))
        elif dim.size % parts and dim in uneven_reasons:
            why, fix = uneven_reasons[dim]
            above = -(-dim.size // parts) * parts
            fix = f"make '{dim.name}' {above}, or {fix}"
            faults.append(cannot_split(title(op), dim, mesh_dim, parts, f"its slices would be uneven, and {why}", fix))
    return faults


def _convolution(op: mtf.Operation) -> str:
    """Returns the name of the `mi.ops` operation that computes the same convolution."""
    if "fake_height" in op.inputs[0].shape.dimension_names:  # mtf.layers.conv1d is a conv2d of a single row
        return "conv1d"
    return _CONVOLUTIONS[type(op)]


def _uneven_reasons(op: mtf.Operation) -> dict[mtf.Dimension, tuple[str, str]]:
    """Returns {dimension: (reason why it must not be split into uneven slices, alternative to another size)}."""
    dims = [dim for t in op.inputs + op.outputs for dim in t.shape.dims]
    if type(op) in _CONVOLUTIONS:
        return dict.fromkeys(dims, ("the operation needs equal slices", f"use mi.ops.{_convolution(op)}"))
    if isinstance(op, mtf.PoolOperation):
        return dict.fromkeys(dims, ("the operation needs equal slices", f"use mi.ops.{own_pool(op)}"))
    return {}


def own_pool(op: mtf.PoolOperation) -> str:
    """Returns the name of the `mi.ops` pool that replaces a pool."""
    ksize, _, kind = compat.pool_window(op)
    return f"{'max' if 'MAX' in kind else 'avg'}_pool{len(ksize)}d"


def _reasons(op: mtf.Operation) -> dict[mtf.Dimension | str, tuple[str, str]]:
    """Returns {dimension or its name: (reason why it must not be split, alternative to dropping the rule)}."""
    if isinstance(op, mtf.SlicewiseOperation):
        fix = "declare it in splittable_dims if the function computes each slice independently"
        return dict.fromkeys(op.unsplittable_dims, ("the operation does not declare it in splittable_dims", fix))
    if type(op) in _CONVOLUTIONS:
        fix = f"use mi.ops.{_convolution(op)}, which exchanges halos"
        reasons = dict.fromkeys(op.unsplittable_dims, ("the filter slides over it or spans it", fix))
        if isinstance(op, mtf.Conv2dTransposeOperation | mtf.Conv3dTransposeOperation):
            fix = f"use mi.ops.{_convolution(op)}, which splits it"
            reasons[compat.output_channels(op)] = "every processor computes all output channels", fix
        return reasons
    if isinstance(op, mtf.PoolOperation):
        ksize, _, _ = compat.pool_window(op)
        dims = op.inputs[0].shape.dims[-1 - len(ksize) : -1]
        ragged = {dim: size for dim, size in zip(dims, ksize) if dim.size % size}
        fix = f"use mi.ops.{own_pool(op)}, which exchanges halos"
        return {dim: (f"windows of {size} do not cover it evenly", fix) for dim, size in ragged.items()}
    return {}
