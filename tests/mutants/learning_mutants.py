"""Faults of what a training starts from and warns about, and of the receptive field."""

from tests.mutants.mutant import mutants

MUTANTS = [
    *mutants(
        "mtf_imaging/data/class_frequencies.py",
        "tests/data/test_class_frequencies.py frequencies or spread",
        ("        counted[ignore] = 0\n", "        pass\n"),
        ("items[index * len(items) // number]", "items[index]"),
        ("counted[list(values)].sum() / total", "counted[list(values)].sum() / counts.sum()"),
    ),
    *mutants(
        "models/class_biases.py",
        "tests/models/test_class_biases.py",
        ("tuple(log - mean for log in logs)", "tuple(logs)"),
        ("math.log(frequency / (1 - frequency))", "math.log(frequency)"),
        ("len(frequencies) != len(names) or ", ""),
    ),
    *mutants(
        "models/unet3d/task.py",
        "tests/models/test_class_biases.py",
        ("sigmoid_biases if self.description.has_regions else softmax_biases", "softmax_biases"),
    ),
    *mutants(
        "models/unet3d/network.py",
        "tests/models/test_class_biases.py",
        ("class_biases=tuple(biases)) if self.class_biases is None else self", "class_biases=tuple(biases))"),
    ),
    *mutants(
        "mtf_imaging/data/records/label_counts.py",
        "tests/data/test_class_frequencies.py records",
        ("range(0, x, step)", "range(0, x - _PLANES, step)"),
        ("math.ceil(voxels / most_voxels)", "math.ceil(most_voxels / voxels)"),
        ("counts += np.bincount", "counts = np.bincount"),
        ("evenly_spread(manifest.cases, most)", "manifest.cases"),
    ),
    *mutants(
        "mtf_imaging/jobs/class_frequencies.py",
        "tests/jobs/test_class_frequencies.py",
        ("return facts.class_frequencies if facts else None", "return None"),
        ("    if last_checkpoint(model_dir) is not None:\n", "    if False:\n"),
        ("        if frequency\n", "", "", "tests/training/test_early_warnings.py masks"),
    ),
    *mutants(
        "mtf_imaging/training/observers/early_warnings.py",
        "tests/training/test_early_warnings.py",
        ("statistics.fmean(self._recent[mask]))\n", "self._recent[mask][0])\n"),
        ("rate < _DECAYED * self._highest", "rate < self._highest"),
        ("return self._has_decayed and not had", "return self._has_decayed"),
        ("if last > _FALLEN * first:", "if last > first * 2:"),
        ("if best < _ABSENT:", "if best < _FOUND:"),
        ("if mask not in self._absent]", "]"),
        ("if mask not in values or self._best", "if self._best"),
        ("        if self._best:  # a rate", "        if False:  # a rate"),
    ),
    *mutants(
        "mtf_imaging/training/optimizers/optimizer.py",
        "tests/training/test_optimizers.py clipped or norm",
        ("mtf.maximum(norm, clip_norm)", "norm"),
        ("norm = mtf.sqrt(mtf.add_n(squares))", "norm = mtf.add_n(squares)"),
    ),
    *mutants(
        "mtf_imaging/planner/cost/receptive_field.py",
        "tests/planner/test_receptive_field.py",
        (
            "window.pads(size)[0]",
            "window.pads(size)[1]",
            "SAME padding differs before and after in all windows alike, and the mirrored field is as wide",
        ),
        ("np.arange(window.kernel) * window.dilation", "np.arange(window.kernel - 1) * window.dilation"),
        ("isinstance(operation, ConvInputGrad)\n", "False\n"),
        ("np.minimum(a[0], b[0]), np.maximum(a[1], b[1])", "np.maximum(a[0], b[0]), np.minimum(a[1], b[1])"),
        ("if sizes[name] != interval.shape[1]:", "if False:"),
    ),
    *mutants(
        "mtf_imaging/data/records/choose_sampling.py",
        "tests/data/test_records.py proposes",
        ("if mm > _COARSER * own", "if mm < _COARSER * own"),
        ("resampled = shape * spacing / grid", "resampled = shape / grid"),
    ),
]
