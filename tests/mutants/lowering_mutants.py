"""Faults of lowerings and gradients that only a second split, an absent dimension or a second derivative shows."""

from tests.mutants.mutant import mutants

_FACTORS = "tests/engine/upstream/test_lowerings.py in_their_turn"
_TENSORS = "tests/engine/upstream/test_lowerings.py of_one_tensor and not all"
_OPS = "tests/engine/ops/test_second_derivatives.py equal_tensorflow"

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/upstream/broadcasting.py",
        _FACTORS,
        ('        value = mesh.allreduce(value, axes, "SUM") if axes else value\n', ""),
        (
            'LazyAllreduceSum(mesh, value, axes) if kind == "SUM"',
            'LazyAllreduceSum(mesh, value, axes[:1]) if kind == "SUM"',
        ),
        ("else mesh.allreduce(value, axes, kind)", "else mesh.allreduce(value, axes[-1:], kind)"),
        (
            "LazyAllreduceSum(mesh, value, axes) if axes else value)",
            "LazyAllreduceSum(mesh, value, axes[:1]) if axes else value)",
        ),
        ("return sorted(axis for axis", "return list(axis for axis"),
        ("names = [dim.name for dim in summed]", "names = [dim.name for dim in summed[:1]]"),
        ("for stack, x in zip(stacks, op.inputs)])", "for stack, x in zip(stacks[::-1], op.inputs[::-1])])"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/slicewise.py",
        _FACTORS,
        (
            "indices = [*_sources(forward), *indices[len(forward.inputs) + len(forward.outputs) :]]",
            "indices = _sources(forward)",
        ),
        (
            "summed = sorted(axes - _axes(mesh, forward.inputs[i].shape))",
            "summed = sorted(axes - _axes(mesh, forward.inputs[i].shape))[:1]",
        ),
        ('mesh.allreduce(gradient, summed, "SUM") if', 'mesh.allreduce(gradient, summed, "MAX") if'),
        ("rounds += sum_over(axes - _axes(mesh, x.shape),", "rounds += sum_over(axes,"),
        ("if any(name not in names for names in lacking)}", "if all(name not in names for names in lacking)}"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/corrections.py",
        _FACTORS,
        ("return [mtf.broadcast(dy, x.shape)]", "return [mtf.stop_gradient(mtf.broadcast(dy, x.shape))]"),
    ),
    *mutants(
        "mtf_imaging/engine/program/traffic.py",
        _FACTORS,
        ("kept = [dim for dim in kept if dim in dims]", "pass"),
        (
            "unread.update(inputs)  # unless",
            "[lazy.pop(tensor) for tensor in inputs]  # unless",
            "",
            "tests/planner/test_traffic.py read_and_added",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/whole.py",
        _TENSORS,
        ("return {dim.name} if tails.tails_of(mesh, mtf.Shape([dim])) else set()", "return set()"),
        ("return {axis: i for i, (axis, dim) in axes if", "return {axis: 0 for i, (axis, dim) in axes if"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/reshape.py",
        _TENSORS,
        ("if axis in old}, sizes)", "if axis in old and axis not in new}, sizes)"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/top_k.py",
        _TENSORS,
        ("mesh.laid_out_constant(lambda at: at[axis])", "mesh.laid_out_constant(lambda at: at[0])"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/grid.py",
        _FACTORS,
        (
            "tuple(b * n + i for b, n, i in zip(shard, self.local, at))",
            "tuple(b + n * i for b, n, i in zip(shard, self.local, at))",
        ),
        ("along = (range(n) if axis in axes else [at]", "along = (range(n) if axis in [*axes][:1] else [at]"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/transport/in_process.py",
        _FACTORS,
        ('"MAX": lambda xs: tf.reduce_max(tf.stack(xs), axis=0)', '"MAX": lambda xs: tf.add_n(xs)'),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/mesh_impl.py",
        "tests/engine/ops/test_reshard.py",
        ('self._record("gather", dims, x)', 'self._record("gather", [*dims][:1], x)'),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/exchange.py",
        _FACTORS,
        (
            '[Round([Exchange("sum", axes, math.prod(shape) * itemsize)], lazy=lazy)]',
            '[Round([Exchange("sum", axes, math.prod(shape) * 4)], lazy=lazy)]',
        ),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/local.py",
        f"{_OPS} and conv",
        ("view = tf.gather(view, [c], axis=axis)", "view = tf.gather(view, [0], axis=axis)"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/halo/planning.py",
        "tests/planner/test_traffic.py bytes_of_a_halo",
        ("sizes[m.dim] = piece.voxels", "sizes[m.dim] = m.size"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/halo/steps.py",
        f"{_OPS} and (conv or pool)",
        ("lambda at: index(at[m.axis])", "lambda at: index(at[0])"),
    ),
    *mutants(
        "mtf_imaging/engine/program/lowering.py",
        _FACTORS,
        (
            "laid_out_tensor = CanonicalSum(laid_out_tensor, canonical)",
            "laid_out_tensor = canonical(laid_out_tensor.to_laid_out_tensor())",
        ),
        ("filled.filled = True, x.widened, x.filled", "filled.filled = True, {}, x.filled", "", f"{_OPS} and conv"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/window_op.py",
        f"{_OPS} and conv",
        ("dims = list(batch_dims) + [mtf", "dims = list(batch_dims)[:1] + [mtf"),
        (
            "return [axis for axis in mesh.split_axes(mtf.Shape(dims)) if axis is not None]",
            "return [axis for axis in mesh.split_axes(mtf.Shape(dims)) if axis is not None][:1]",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/conv/operations.py",
        f"{_OPS} and conv",
        ("ConvFilterGrad(self.kind, dx, y, self.geometry, f.shape).outputs[0]", "None"),
        ("ConvInputGrad(self.kind, y, df, self.geometry, self._in_dim).outputs[0]", "None"),
        ("Conv(self.kind, x, df, self.geometry).outputs[0]", "None"),
        (
            "return [axis for axis in axes if axis is not None]",
            "return [axis for axis in axes if axis is not None][:1]",
        ),
        (
            "self.geometry.summed_axes(mesh, self._batch_dims),\n                self._filter_slice(mesh),",
            "[],\n                self._filter_slice(mesh),",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/pool/operations.py",
        f"{_OPS} and pool",
        (
            "return [None, TakeLargest(self.kind, self.inputs[0], grad_ys[0], self.geometry).outputs[0]]",
            "return [None, None]",
        ),
        ("return [AvgPool(self.kind, grad_ys[0], self.geometry, None).outputs[0]]", "return [None]"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/norm/normalization.py",
        f"{_OPS} and norm",
        ("return [dx, dscale, None, None, ddy]", "return [dx, dscale, None, None, None]"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/norm/sums.py",
        f"{_OPS} and norm",
        (
            "fn, tensors, statistics, self._channel_axes, batch_ndims=0)",
            "fn, tensors, statistics, (), batch_ndims=0)",
            "",
            "tests/engine/ops/test_ops_equal_whole.py tests/engine/ops/test_norm_statistics.py norm",
        ),
        ("return sum_over(self._case_axes, [1, 2, shape[-1]], SUM_BYTES)", "return []"),
        (
            "return sum_over(self._summed, [shape[0], count, shape[-1]], SUM_BYTES)",
            "return sum_over(self._summed, [1, count, shape[-1]], SUM_BYTES)",
            "",
            "tests/planner/test_traffic.py second_derivatives_and_norms",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/smooth.py",
        f"{_OPS} and (gelu or silu)",
        ("SmoothGrad(self.kind, x, ddx, self._order).outputs[0],", "None,"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/bias.py",
        f"{_OPS} and bias",
        ("mtf.reduce_sum(dy, output_shape", "mtf.reduce_mean(dy, output_shape"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/reshard.py",
        f"{_OPS} and slices",
        (
            "gathered = tuple(sorted(old for old, new in axes if old not in (None, new)))\n        nbytes",
            "gathered = tuple(sorted(old for old, new in axes if old not in (None, new)))[:1]\n        nbytes",
            "",
            "tests/engine/ops/test_reshard.py",
        ),
        (
            "{new: dim for dim, _, new in changed if new is not None}",
            "{new: 0 for dim, _, new in changed if new is not None}",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/space/operations.py",
        f"{_OPS} and depth",
        (
            "tails.scatter(mesh, y, {axis: len(y.slice_shape) - 1})",
            "tails.scatter(mesh, y, {axis: len(y.slice_shape) - 2})",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/losses/cross_entropy.py",
        f"{_OPS} and cross_entropy",
        ("dgrad if self._weights is None else dgrad * self._voxel_weights()", "dgrad"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/detection/roi_align.py",
        f"{_OPS} and roi",
        (
            "return [RoiAlign(maps, boxes, levels, self._strides, self._crops, self._aligned).outputs[0], None, None]",
            "return [None, None, None]",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/resize/operations.py",
        f"{_OPS} and (resize or pad)",
        (
            "mesh.shape[axis].size), plan.before, plan.after, axis)",
            "mesh.shape[axis].size), plan.after, plan.before, axis)",
        ),
        (
            "dx = _sum_taps(mesh, dx, r.dim, axis, plan.backward)",
            "dx = _sum_taps(mesh, dx, r.dim, 0 if axis else axis, plan.backward)",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/recompute.py",
        f"{_OPS} and recompute",
        ("return [*grad_ys, *[None] * (len(self.inputs) - 1)]", "return [None] * len(self.inputs)"),
    ),
    *mutants(
        "mtf_imaging/engine/layers/residual.py",
        "tests/engine/layers/test_layers.py",
        ('product = _product(product, getattr(layer, "strides", 1))', 'product = getattr(layer, "strides", 1)'),
    ),
]
