"""Faults of ops/: losses, norms, resizing and padding."""

from tests.mutants.mutant import mutants

_LOSSES = "tests/ops/test_ops_equal_whole.py dice or cross_entropy or masked_mean or means_at"
_DERIVATIVES = "tests/ops/test_second_derivatives.py dice or cross_entropy or sigmoid or norm"
_NORMS = "tests/ops/test_norms_of_cases.py tests/ops/test_norm_statistics.py values or uneven or mean_far"
_RESIZES = "tests/ops/test_interpolation.py tests/ops/test_resize.py tests/ops/test_uneven_windows.py equals_the_whole"
_PADS = "tests/ops/test_resampling.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/ops/losses/dice.py",
        "tests/ops/test_ops_equal_whole.py tests/ops/test_second_derivatives.py dice",
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
            "probabilities, labels = probabilities * mask, labels * mask",
            "probabilities, labels = probabilities * mask, labels",
        ),
        ("return 1 - mtf.add_n(terms) / len(terms)", "return 1 - mtf.add_n(terms)"),
        ("dice = (2 * overlap + epsilon) / (total + epsilon)", "dice = (2 * overlap + epsilon) / total"),
        (
            "return 1 - mtf.reduce_mean(dice * mtf.exp(1 - dice))",
            "return 1 - mtf.reduce_mean(dice * mtf.exp(dice - 1))",
        ),
    ),
    *mutants(
        "mtf_imaging/ops/losses/masked_mean.py",
        "tests/ops/test_ops_equal_whole.py tests/ops/test_second_derivatives.py mask",
        ("over_batch(mtf.reduce_sum(x * mask))", "over_batch(mtf.reduce_sum(x))"),
        ("return total / mtf.maximum(count, 1)", "return total / (count + 1)"),
    ),
    *mutants(
        "mtf_imaging/ops/losses/cross_entropy.py",
        f"{_LOSSES}",
        ("loss, grad = loss * weight, grad * weight[:, None]", "loss, grad = loss * weight, grad"),
        (
            "labels = lowering.masked(self.inputs[1])",
            "labels = lowering.tensors[self.inputs[1]].to_laid_out_tensor()",
            "",
            "tests/ops/test_ops_equal_whole.py tests/ops/test_second_derivatives.py cross_entropy",
        ),
    ),
    *mutants(
        "mtf_imaging/ops/losses/sigmoid.py",
        _DERIVATIVES,
        ("return [(mtf.sigmoid(logits) - labels) * dloss", "return [(labels - mtf.sigmoid(logits)) * dloss"),
        ("mtf.negative(logits) * dloss]", "None]"),
    ),
    *mutants(
        "mtf_imaging/ops/norm/local.py",
        f"{_NORMS}",
        ("variance *= (rows - 1) / rows", "variance *= 1"),
        ("variance + tf.square(mean))", "variance)"),
        (
            "(scale * tf.math.rsqrt(variance + epsilon)) + offset",
            "(scale * tf.math.rsqrt(variance)) + offset",
            "",
            "tests/ops/test_norms_of_cases.py tests/ops/test_second_derivatives.py norm",
        ),
        ("variance, scale, -inverse * mean_dy, epsilon)", "variance, scale, 0 * mean_dy, epsilon)"),
        ("inverse * mean_dy_normal, zeros, epsilon)", "mean_dy_normal, zeros, epsilon)"),
        ("return tf.transpose(totals, [1, 0, 2]) if self._cases else totals", "return totals"),
    ),
    *mutants(
        "mtf_imaging/ops/norm/sums.py",
        _NORMS,
        ("self._has_tails = bool(tails.tails_of(", "self._has_tails = not (tails.tails_of("),
        (
            "        if self._has_tails:\n            return self._sums_of_boxes",
            "        if False:\n            return self._sums_of_boxes",
        ),
        ("summed = slice(1 if self.by_case else 0, -1)", "summed = slice(1, -1)"),
    ),
    *mutants(
        "mtf_imaging/ops/resize/taps.py",
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
        "mtf_imaging/ops/resize/padding.py",
        _PADS,
        ("np.arange(self.outputs) - self.before", "np.arange(self.outputs) - self.before + 1"),
        ('border = 0 if self.mode == "reflect" else 1', 'border = 1 if self.mode == "reflect" else 0'),
        (
            "positions = (inside - beyond + border * np.sign(beyond))",
            "positions = (inside + beyond + border * np.sign(beyond))",
        ),
        ("(rows == inside)[np.newaxis]", "(rows <= inside)[np.newaxis]"),
    ),
]
