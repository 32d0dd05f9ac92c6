"""Faults of upstream/: gradients of functions of slices, and products and sums."""

from tests.mutants.mutant import mutants

_SLICEWISE = "tests/engine/upstream/test_slicewise.py tests/engine/upstream/test_functions.py"
_SELECTIONS = "tests/engine/upstream/test_selections.py"
_FUNCTIONS = "tests/engine/upstream/test_corrections.py tests/engine/upstream/test_equal_whole.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/upstream/selections.py",
        _SELECTIONS,
        ("mtf.where(condition, dy, 0), output_shape", "mtf.where(condition, 0, dy), output_shape"),
        ("mtf.where(condition, 0, dy), output_shape", "mtf.cast(~condition, dy.dtype) * dy, output_shape"),
        ("tf.where(is_here, values, tf.zeros([], x.dtype))", "values * tf.cast(is_here, x.dtype)"),
        ("tf.where(at == every, stack, tf.zeros([], dy.dtype))", "stack * tf.cast(at == every, dy.dtype)"),
        ("            at = tails.fill(mesh, at, tails", "            tails.fill(mesh, at, tails"),
        (" & (stack < dim.size)", ""),
        ("_summed(mesh, value, self._gone)", "value"),
        ("return _sums(mesh, self._gone, self.outputs[0])", "return []"),
        ("x / keep_prob if x.dtype.is_floating else x, 0)", "x, 0)"),
        ("self._exclusive, not self._reverse)", "self._exclusive, self._reverse)"),
        ("values = _ordered(tf.cast(values, master_dtype(values.dtype)),", "values = _ordered(values,"),
        (
            "if x.dtype.is_floating else stack\n            return tf.cast(tf",
            "if False else stack\n            return tf.cast(tf",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/corrections.py",
        _SELECTIONS,
        ("[(a, (dy, 0)), (b, (0, dy))]", "[(a, (0, dy)), (b, (dy, 0))]"),
        ("LeakyReluGrad(op.inputs[0], dy, alpha)", "LeakyReluGrad(op.inputs[0], dy, 0.2)"),
        (
            "mtf.gather(logits, targets, vocab_dim, log_z.shape)",
            "mtf.reduce_sum(logits * mtf.one_hot(targets, vocab_dim, dtype=logits.dtype), reduced_dim=vocab_dim)",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/slicewise.py",
        _SLICEWISE,
        ("arguments = [_argument(mesh, op, value) for value in defined]", "arguments = defined"),
        ("is None and op in lowering.differentiated:", "is None and False:"),
        ("return tf.gradients(ys, xs, dys, stop_gradients=xs)", "return tf.gradients(ys, xs, dys)"),
        ("return tf.gradients(ys, xs, dys, stop_gradients=xs)", "return [tf.zeros_like(x) for x in xs]"),
        ("tails.valid_integers(mesh, value, x.shape) if", "value if"),
        (
            "lowering.masked(dy, call.summed_tails).to_laid_out_tensor()",
            "lowering.tensors[dy].to_laid_out_tensor()",
            "",
            "tests/engine/upstream/test_slicewise.py tests/engine/upstream/test_uneven.py",
        ),
        ("summed = sorted(axes - _axes(mesh, forward.inputs[i].shape))", "summed = []"),
        ("            gradient = tails.zero_empty_slices(mesh, gradient, absent)\n", ""),
        ("mesh.map_stacks(tf.add, totals[i], gradient) if i in totals else gradient", "gradient"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/broadcasting.py",
        _FUNCTIONS,
        ("if order != sorted(order):", "if False:"),
        (
            "stack * number if multiplies else stack + number",
            "stack * number if multiplies else stack - number",
            "",
            "tests/engine/upstream/test_tensors.py",
        ),
        (
            '"MAX": tails.lowest(x.dtype), "MIN": tails.highest(x.dtype)',
            '"MAX": 0, "MIN": 0',
            "",
            "tests/engine/ops/test_nonfinite.py reductions or mesh_tensorflow",
        ),
        (
            "lowering.masked(x, [dim.name for dim in missing], fill)",
            "lowering.tensors[x].to_laid_out_tensor()",
            "",
            "tests/engine/upstream/test_uneven.py tests/engine/meshes/test_poison.py",
        ),
        ("    if axes:\n        value = mtf.LazyAllreduceSum", "    if False:\n        value = mtf.LazyAllreduceSum"),
        ("dims.index(dim) for dim in full if dim in dims]", "dims.index(dim) for dim in dims if dim in full]"),
        (
            "call = mesh.slicewise_delay_allreduce if fn == tf.add else mesh.elementwise\n"
            "        values = values if fn == tf.add else [value.to_laid_out_tensor() for value in values]\n",
            "call = mesh.slicewise_delay_allreduce\n",
            "",
            "tests/engine/upstream/test_small_faults.py",
        ),
        (
            "values[1] = tails.valid_integers(mesh, values[1].to_laid_out_tensor(), divisor.shape)",
            "pass",
            "",
            _SLICEWISE,
        ),
        ("tf.cast(stack, partial_dtype(stack.dtype)) if", "stack if", "", "tests/engine/ops/test_sixteen_bits.py once"),
        (
            "is_wide = bool(axes) or (bool",
            "is_wide = bool(axes) and (bool",
            "",
            "tests/engine/ops/test_sixteen_bits.py once",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/slicewise.py",
        _SLICEWISE,
        ("tails.repeat_last(mesh, value, tails.tails_of(mesh, x.shape, summed))", "value"),
        ("mesh.slicewise(function, *arguments, keep_gradient=True)", "mesh.slicewise(function, *arguments)"),
        ("if name not in dims and tail.axis in axes]", "if name in dims and tail.axis in axes]"),
        (
            "call = mesh.elementwise if compat.is_own_function(function) else mesh.slicewise",
            "call = mesh.elementwise",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/corrections.py",
        "tests/engine/upstream/test_corrections.py tests/engine/upstream/test_small_faults.py "
        "tests/engine/upstream/test_equal_whole.py",
        (
            "[op for op in operations if not isinstance(op, mtf.Assign)]",
            "operations",
            "",
            "tests/engine/upstream/test_corrections.py repeat",
        ),
        (
            "weigh(slope(op.inputs[0], op.outputs[0]), dy)",
            "slope(op.inputs[0], op.outputs[0]) * dy",
            "",
            f"{_SELECTIONS}",
        ),
        (
            "is_first = mtf.equal(a, y, output_shape=y.shape)",
            "is_first = mtf.logical_not(mtf.equal(b, y, output_shape=y.shape))",
        ),
        ("chosen * (dy / mtf.reduce_sum(chosen, output_shape=y.shape))", "chosen * dy"),
        ("[mtf.zeros_like(y) if dy is None else dy for", "[mtf.ones_like(y) if dy is None else dy for"),
        ("mtf.stack(_fill_missing(op, grad_ys), dim.name, axis)", "mtf.stack(_fill_missing(op, grad_ys), dim.name, 0)"),
        (
            "_while_loop(cond_fn, body_fn, list(inputs), **options)[:num_loop_vars]",
            "_while_loop(cond_fn, body_fn, list(inputs), num_loop_vars, **options)",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/reshape.py",
        "tests/engine/upstream/test_small_faults.py",
        (
            "before is None or after is None or any(tails.tails_of(mesh, t.shape) for t in op.inputs + op.outputs)",
            "before is None or after is None",
        ),
        ("if place[0] != place[1] or axis in resized}", "if place[0] != place[1]}"),
        ("target is None or mesh.slice_shape(shape)[target] % mesh.shape[axis].size", "target is None"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/shift.py",
        "tests/engine/upstream/test_small_faults.py",
        ("[(hops, length - rest), (hops + 1, rest)]", "[(hops, rest), (hops + 1, length - rest)]"),
        ("(to - hop) % parts if wrap else to - hop", "to - hop"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/top_k.py",
        "tests/engine/upstream/test_small_faults.py",
        ("tails.fill(mesh, keys, uneven, keys.dtype.min) if uneven", "tails.fill(mesh, keys, uneven, 0) if uneven"),
        ("[-1] + [1] * (last + 1)) * length", "[-1] + [1] * (last + 1))"),
        ("min(k_dim.size, length))\n        return best", "1)\n        return best"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/while_loop.py",
        "tests/engine/upstream/test_while_loop.py values or depend or micro_batches or share or sum or independent",
        ("[number + 1, *results[:size], *sums]", "[number, *results[:size], *sums]"),
        (
            "{t: LaidOutTensor(stacks) for t, stacks in outside.items()}",
            "{t: lowering.tensors[t] for t in outside if t in lowering.tensors}",
            "",
            "tests/engine/upstream/test_while_loop.py share",
        ),
        (
            "op.graph.operations[-1:] = [*variables, op]",
            "op.graph.operations[-1:] = [op, *variables]",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/tensors.py",
        "tests/engine/upstream/test_tensors.py operands or operators",
        ("np.subtract: mtf.Tensor.__rsub__", "np.subtract: mtf.Tensor.__sub__"),
        ("np.divide: mtf.Tensor.__rtruediv__", "np.divide: mtf.Tensor.__truediv__"),
        ("np.less: lambda x, other: mtf.less(other, x)", "np.less: lambda x, other: mtf.less(x, other)"),
        ('"__le__": lambda x, other: mtf.less_equal', '"__le__": lambda x, other: mtf.less'),
        ('"__rpow__": lambda x, other: _power(other, x)', '"__rpow__": lambda x, other: _power(x, other)'),
        ("np.power: lambda x, other: _power(other, x)", "np.power: lambda x, other: _power(x, other)"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/operands.py",
        "tests/engine/upstream/test_tensors.py",
        ("if kind > (rank(dtype) or 0):", "if kind > (rank(dtype) or 0) + 1:"),
        ("if array.shape != ():", "if len(array.shape) > 1:"),
        ("!= wanted.to_integer_list:", "!= wanted.to_integer_list[::-1]:"),
    ),
]
