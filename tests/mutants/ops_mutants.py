"""Faults of ops/: losses, norms, resizing and padding."""

from tests.mutants.mutant import mutants

_LOSSES = "tests/engine/ops/test_ops_equal_whole.py dice or cross_entropy or masked_mean or means_at"
_MASKS = "tests/engine/ops/test_losses.py"
_NORMS = (
    "tests/engine/ops/test_norms_of_cases.py tests/engine/ops/test_norm_statistics.py "
    "values or one_case or uneven or mean_far"
)
_RESIZES = (
    "tests/engine/ops/test_interpolation.py tests/engine/ops/test_resize.py tests/engine/ops/test_uneven_windows.py "
    "equals_the_whole"
)
_PADS = "tests/engine/ops/test_resampling.py"
_SMALL = "tests/engine/ops/test_small_faults.py"
_TIES = "tests/engine/ops/test_max_pool_ties.py"
_SUMS = "tests/engine/ops/test_sixteen_bits.py once"
_WINDOWS = "tests/engine/ops/test_uneven_windows.py test_equals_the_whole or float64"

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/ops/norm/norms.py",
        "tests/engine/ops/test_norms_of_cases.py one_value",
        ("for dim in dims) * group == 1", "for dim in dims) == 1"),
        ("x.shape.dims[1:-1], group)", "x.shape.dims[:-1], group)"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/losses/dice.py",
        "tests/engine/ops/test_ops_equal_whole.py tests/engine/ops/test_second_derivatives.py dice",
        ("terms.append(mtf.reduce_mean((2 * overlap + epsilon)", "terms.append(mtf.reduce_mean((overlap + epsilon)"),
        (
            "        terms.append((2 * overlap + epsilon) / (total + epsilon))",
            "        terms.append((2 * overlap) / (total + epsilon))",
        ),
        (
            "mtf.reduce_sum(probabilities, output_shape=cases) + mtf",
            "mtf.reduce_sum(probabilities, output_shape=cases) - mtf",
        ),
        (
            "probabilities, labels = weigh(probabilities, mask), weigh(labels, mask)",
            "probabilities, labels = weigh(probabilities, mask), labels",
        ),
        ("return 1 - mtf.add_n(terms) / len(terms)", "return 1 - mtf.add_n(terms)"),
        ("dice = (2 * overlap + epsilon) / (total + epsilon)", "dice = (2 * overlap + epsilon) / total"),
        (
            "return 1 - mtf.reduce_mean(dice * mtf.exp(1 - dice))",
            "return 1 - mtf.reduce_mean(dice * mtf.exp(dice - 1))",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/losses/masked_mean.py",
        "tests/engine/ops/test_ops_equal_whole.py tests/engine/ops/test_second_derivatives.py mask",
        ("over_batch(mtf.reduce_sum(weigh(x, mask)))", "over_batch(mtf.reduce_sum(x))"),
        ("mtf.where(mtf.equal(count, 0), 1, count)", "(count + 1)"),
        ("mtf.where(mtf.equal(count, 0), 1, count)", "mtf.maximum(count, 1)", "", f"{_MASKS} keras"),
        ("    x = widen(x)\n", "", "", f"{_MASKS} 16_bits"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/weighing.py",
        _MASKS,
        ("mtf.cwise(tf.math.multiply_no_nan, [x, mask],", "mtf.cwise(tf.multiply, [x, mask],", "", f"{_MASKS} keras"),
        ("weigh(x, dy)]", "dy]", "", f"{_MASKS} gradients_of_a_masked"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/losses/dice.py",
        f"{_MASKS} 16_bits",
        ("    probabilities = widen(probabilities)\n    labels = mtf", "    labels = mtf"),
        ("    probabilities = widen(probabilities)\n    targets = mtf", "    targets = mtf"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/losses/cross_entropy.py",
        _LOSSES,
        ("                grad = tf.math.multiply_no_nan(grad, weight[:, None])\n", ""),
        ("loss = tf.math.multiply_no_nan(loss, weight)", "loss *= weight", "", f"{_MASKS} outside"),
        ("SparseSoftmaxCrossEntropy(widen(logits),", "SparseSoftmaxCrossEntropy(logits,", "", f"{_MASKS} 16_bits"),
        ("mtf.cast(Softmax(widen(x), name)", "mtf.cast(Softmax(x, name)", "", f"{_MASKS} softmax_of_16"),
        (
            "labels = lowering.masked(self.inputs[1])",
            "labels = lowering.tensors[self.inputs[1]].to_laid_out_tensor()",
            "",
            "tests/engine/ops/test_ops_equal_whole.py tests/engine/ops/test_second_derivatives.py cross_entropy",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/losses/sigmoid.py",
        _LOSSES,
        ("return [(mtf.sigmoid(logits) - labels) * dloss", "return [(labels - mtf.sigmoid(logits)) * dloss"),
        ("mtf.negative(logits) * dloss]", "None]"),
        ("(widen(logits), widen(labels), name)", "(logits, labels, name)", "", f"{_MASKS} 16_bits"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/norm/local.py",
        f"{_NORMS}",
        ("variance *= (rows - 1) / rows", "variance *= 1"),
        ("mean, variance + tf.square(mean)", "mean, variance"),
        (
            "(scale * tf.math.rsqrt(variance + epsilon)) + offset",
            "(scale * tf.math.rsqrt(variance)) + offset",
            "",
            "tests/engine/ops/test_norms_of_cases.py tests/engine/ops/test_second_derivatives.py norm",
        ),
        ("-inverse * mean_dy,", "0 * mean_dy,"),
        ("scale, inverse * mean_dy_normal,", "scale, mean_dy_normal,"),
        ("return tf.transpose(totals, [1, 0, 2]) if self._cases else totals", "return totals"),
        (
            "values = tf.tile(values, [1] * (1 + len(self._cases)) + [self.columns])",
            "values = tf.repeat(values, self.columns, axis=-1)",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/norm/norms.py",
        "tests/training/test_state_oracle.py frozen",
        ("any(is_frozen(", "all(is_frozen("),
        ("for x in (moving_mean, moving_variance))", "for x in (moving_mean,))"),
        ("for x in (moving_mean, moving_variance))", "for x in (moving_variance,))"),
        (
            "moving * momentum + value * (1 - momentum)",
            "moving * (1 - momentum) + value * momentum",
            "",
            "tests/training/test_state_oracle.py sgd",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/norm/sums.py",
        _NORMS,
        ("self._has_tails = bool(tails.tails_of(", "self._has_tails = not (tails.tails_of("),
        (
            "        if self._has_tails:\n            return self._sums_of_boxes",
            "        if False:\n            return self._sums_of_boxes",
        ),
        ("summed = slice(0 if self._sums_cases else 1, -1)", "summed = slice(1, -1)"),
        ("summed = slice(0 if self._sums_cases else 1, -1)", "summed = slice(0, -1)"),
        ("and (axis is None or mesh.grid.local[axis] == 1)", ""),
        ("mesh.slice_shape(shape)[0] == 1 and", ""),
        ("return self._allreduce(sums, self._case_axes)", "return sums"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/resize/taps.py",
        _RESIZES,
        ("-(-resampling.size // parts)", "resampling.size // parts"),
        ("max(0, int(positions.max()) - m + 1)", "max(0, int(positions.max()) - m)"),
        ("before, after = max(0, -int(positions.min()))", "before, after = max(0, -int(positions.min()) - 1)"),
        (
            "Taps((positions + before).astype(np.int32), weights)",
            "Taps((positions + before + 1).astype(np.int32), weights)",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/resize/padding.py",
        _PADS,
        ("np.arange(self.outputs) - self.before", "np.arange(self.outputs) - self.before + 1"),
        ('border = 0 if self.mode == "reflect" else 1', 'border = 1 if self.mode == "reflect" else 0'),
        (
            "positions = (inside - beyond + border * np.sign(beyond))",
            "positions = (inside + beyond + border * np.sign(beyond))",
        ),
        ("(rows == inside)[np.newaxis]", "(rows <= inside)[np.newaxis]"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/window_op.py",
        _SMALL,
        ("return [w.pads(n)[::-1] for w", "return [w.pads(n) for w", "", _WINDOWS),
        ("all(w.stride == 1 and w.extent % 2 for w in self.windows)", "all(w.stride == 1 for w in self.windows)"),
        ("        key = (self, fill)\n", "        key = (self, 0)\n"),
        ("any(w.stride > w.extent for w in windows)", "False"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/conv/operations.py",
        "tests/engine/ops/test_uneven_windows.py test_equals_the_whole or float64 or not_a_number",
        (
            "x, f = lowering.masked(self.inputs[0]), lowering",
            "x, f = lowering.tensors[self.inputs[0]].to_laid_out_tensor(), lowering",
        ),
        (
            "lowering.masked(self.inputs[1], self._filter_names(-2))",
            "lowering.tensors[self.inputs[1]].to_laid_out_tensor()",
        ),
        (
            "y, f = lowering.masked(self.inputs[0]), lowering",
            "y, f = lowering.tensors[self.inputs[0]].to_laid_out_tensor(), lowering",
        ),
        (
            "lowering.masked(self.inputs[1], self._filter_names(-1))",
            "lowering.tensors[self.inputs[1]].to_laid_out_tensor()",
        ),
        (
            "x, y = [lowering.masked(t) for t in self.inputs]",
            "x, y = [lowering.tensors[t].to_laid_out_tensor() for t in self.inputs]",
        ),
        ("return pieces if uneven else None", "return None if uneven else pieces", "", _SMALL),
        (
            "wide[dim] = (size - 1) * strides[place] + geometry.windows[place].extent",
            "wide[dim] = size * strides[place] + geometry.windows[place].extent",
        ),
        (
            "        elif self._is_partial(mesh, other):\n            value = mtf.Lazy",
            "        elif False:\n            value = mtf.Lazy",
            "",
            _WINDOWS,
        ),
        (
            "if by_voxels and self.geometry.margins(mesh):\n            y = self.geometry",
            "if self.geometry.margins(mesh):\n            y = self.geometry",
            "",
            "tests/engine/ops/test_ops_equal_whole.py conv2d and equals",
        ),
        ("is_partial = pieces is not None or any(mesh", "is_partial = pieces is not None and any(mesh", "", _SUMS),
        ("self._is_partial(mesh, self._in_dim)\n", "False\n", "", _SUMS),
        ("as_partial(local, self._is_partial(mesh, self._out_dim))", "as_partial(local, False)", "", _SUMS),
        ("                partial_dtype(df.dtype).size", "                df.dtype.size", "", _SUMS),
        ("dtype = partial_dtype(x.dtype) if self._is", "dtype = x.dtype if self._is", "", _SUMS),
    ),
    *mutants(
        "mtf_imaging/engine/ops/conv/local.py",
        "tests/engine/ops/test_kernels.py",
        ("w.stride > 1 and w.output_size(n) == 1 for", "w.stride > 1 for"),
        ("any(max(window.pads(n)) >= n for", "any(max(window.pads(n)) > n for"),
        ("rest = [1 if is_single else w.stride for", "rest = [w.stride for"),
        ("after = window.extent - before - shape[axis]", "after = window.extent - before - shape[axis] + 1"),
        ("(before, max(after, 0))", "(0, before + max(after, 0))"),
        ("[before for before, _ in self.pads]", "[0 for _ in self.pads]"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/conv/grouped.py",
        "tests/engine/ops/test_kernels.py",
        ('return padding == "SAME" and', 'return padding == "VALID" and'),
        ("local.has_idle_tap(x.shape.as_list()[1:-1], kernel, dilations)", "False"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/pool/operations.py",
        "tests/engine/ops/test_uneven_windows.py test_equals_the_whole or float64 or infinite_tails",
        (
            "tails.lowest(x.dtype)), tails.lowest(x.dtype))\n        y = self",
            "tails.lowest(x.dtype)), 0)\n        y = self",
        ),
        (
            "lowering.masked(x, fill=tails.lowest(x.dtype)), tails.lowest(x.dtype))\n        y = self",
            "lowering.tensors[x].to_laid_out_tensor(), tails.lowest(x.dtype))\n        y = self",
        ),
        (
            "lowering.masked(x, fill=tails.lowest(x.dtype)), tails.lowest(x.dtype))\n        dy",
            "lowering.masked(x), 0)\n        dy",
        ),
        ("dy = lowering.masked(self.inputs[1])", "dy = lowering.tensors[self.inputs[1]].to_laid_out_tensor()"),
        (
            "lowering.masked(x, fill=tails.lowest(x.dtype)), tails.lowest(x.dtype))\n        wide_values",
            "lowering.masked(x), 0)\n        wide_values",
            "",
            "tests/engine/ops/test_second_derivatives.py tests/engine/ops/test_small_faults.py pool",
        ),
        (
            "self.geometry.widened(mesh, lowering.masked(values))",
            "self.geometry.widened(mesh, lowering.tensors[values].to_laid_out_tensor())",
            "",
            _SMALL,
        ),
        (
            "self.geometry.widened(mesh, lowering.masked(self.inputs[0]))",
            "self.geometry.widened(mesh, lowering.tensors[self.inputs[0]].to_laid_out_tensor())",
        ),
        (
            "_correct_borders(geometry, mesh, lowering.masked(self.inputs[0]))",
            "_correct_borders(geometry, mesh, lowering.tensors[self.inputs[0]].to_laid_out_tensor())",
        ),
        (
            "dy = _correct_borders(geometry, mesh, lowering.masked(self.inputs[0]))",
            "dy = lowering.masked(self.inputs[0])",
        ),
        ("* window.stride - before", "* window.stride"),
        (
            "np.minimum(first + window.kernel, size) - np.maximum(first, 0)",
            "first + window.kernel - np.maximum(first, 0)",
        ),
        (
            "np.minimum(first + window.kernel, size) - np.maximum(first, 0)",
            "np.minimum(first + window.kernel, size) - first",
        ),
        ("axis, window.kernel / exist)", "axis, exist / window.kernel)"),
        ("slices[0 if axis is None else at[axis]]", "slices[0]"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/pool/local.py",
        _SMALL,
        ("tf.add_n(values) / len(values)", "tf.add_n(values)"),
        ("_add_taps(rows.shape, *along, gradients)", "_add_taps(rows.shape, *along, gradients[::-1])", "", _TIES),
        ("return bool(session.run(", "return not bool(session.run(", "", _TIES),
        ("[dy / taps] * taps", "[dy] * taps"),
        ("outputs = [(n - k) // s + 1 for", "outputs = [n // s for"),
        (
            "with tf.control_dependencies([dy]):",
            "with tf.control_dependencies([]):",
            "",
            "tests/engine/ops/test_sixteen_bits.py keeps_no_copy",
        ),
        (
            "tf.logical_and(tf.equal(value, y), tf.logical_not(taken))",
            "tf.equal(value, y)",
            "",
            "tests/engine/ops/test_second_derivatives.py tests/engine/ops/test_small_faults.py pool",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/over_batch.py",
        "tests/training/test_micro_batches.py train_like or extra_pass",
        ("lambda dy: dy * self._count", "lambda dy: dy"),
        (
            "return _Sum([x, whole], whole, self._count).outputs[0]",
            "return _Sum([x, x], whole, self._count).outputs[0]",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/activation.py",
        "tests/engine/ops/test_dropout.py tests/engine/ops/test_ops_equal_whole.py dropout or relu or drops",
        ("tf.where(mask, x / tf.cast(kept, x.dtype),", "tf.where(mask, x,"),
        ("gradient_of._key_name if gradient_of else self.name", "self.name"),
        ("features=y, alpha=self._negative_slope", "features=y, alpha=0.0"),
        (
            "if dropout and dropout.inputs[0] is y:",
            "if dropout:",
            "",
            "tests/engine/ops/test_dropout.py tests/engine/ops/test_ops_equal_whole.py "
            "tests/engine/ops/test_small_faults.py dropout",
        ),
        ("return float(1 - Decimal(str(rate)))", "return float(1 - rate)"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/detection/bins.py",
        "tests/engine/ops/test_roi_align.py",
        ("[(i + 0.5) / bins for i in range(bins)]", "[i / bins for i in range(bins)]"),
        ("- tf.constant(center, dtype)", "- tf.constant(0.0, dtype)"),
        ("- tf.constant(center, dtype)", "- tf.constant(0.5, dtype)"),
        ("+ offset - first", "+ offset"),
        ("(element >= 0) & (element < count), weight", "element < count, weight"),
        (
            "((0, 1 - (position - below)), (1, position - below))",
            "((0, position - below), (1, 1 - (position - below)))",
        ),
        ("tf.zeros([], dtype), tf.cast(whole - 1, dtype))", "tf.zeros([], dtype), tf.cast(whole, dtype))"),
        ("row += by_level(areas, tf.int64) * tf.range(batch", "row += 0 * tf.range(batch"),
        (
            "multiply_no_nan(tf.cast(tf.gather(pixels",
            "tf.math.multiply(tf.cast(tf.gather(pixels",
        ),
        (
            "along_x = _taps(x0, x1, stride, extents[..., 1, :], pieces.center, size[1])",
            "along_x = _taps(x0, x1, stride, extents[..., 0, :], pieces.center, size[1])",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/detection/roi_align.py",
        "tests/engine/ops/test_roi_align.py",
        ("0 if counted_once and repeated else count", "count"),
        ("min(stored[dim], whole - first), 0)", "min(stored[dim], whole - first - 1), 0)"),
        (
            "        if division.summed:\n            y = mesh.allreduce",
            "        if False:\n            y = mesh.allreduce",
        ),
        ("self.over_rois = rois if rois not in self.summed else None", "self.over_rois = None"),
        (
            "tails.gather(mesh, lowering.masked(self.inputs[0]), division.gathered, crops)",
            "tails.gather(mesh, lowering.tensors[self.inputs[0]].to_laid_out_tensor(), division.gathered, crops)",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/conv/grouped.py",
        "tests/engine/ops/test_grouped_conv.py equals_the_whole or kernels",
        (
            "f = tf.reverse(tf.reshape(f, [*kernel, inputs, groups, outputs // groups]), spatial)",
            "f = tf.reshape(f, [*kernel, inputs, groups, outputs // groups])",
        ),
        (
            "groups, outputs // groups]), spatial)\n    f = tf.transpose(f, [*spatial, last + 2, last + 1, last])",
            "outputs // groups, groups]), spatial)\n    f = tf.transpose(f, [*spatial, last + 1, last + 2, last])",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/ops/conv/group_split.py",
        "tests/engine/ops/test_grouped_conv.py equals_the_whole or kernels or gathers or share",
        (
            "return self.number if axis is None else -(-self.number // mesh.shape[axis].size)",
            "return self.number if axis is None else self.number // mesh.shape[axis].size",
        ),
        ("if old == new and mesh.slice_shape(own) == mesh.slice_shape(groups):", "if old == new:"),
    ),
]
