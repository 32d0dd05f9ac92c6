"""Faults of networks/: the conversion of other libraries' networks, and their preprocessing files."""

from tests.mutants.mutant import mutants

_OPERATIONS = "tests/networks/test_operations.py"
_COMMANDS = "tests/cli/test_imported_network.py"
_PREDICTIONS = "tests/networks/test_nnunet_predictions.py"
_ONNX = "tests/networks/test_onnx_networks.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/networks/graph.py",
        f"{_COMMANDS} region",
        ('_ACTIVATIONS = ("Softmax", "Sigmoid")', '_ACTIVATIONS = ("Softmax",)'),
    ),
    *mutants(
        "mtf_imaging/networks/network.py",
        f"{_COMMANDS} named",
        ("if needed != found:", "if False:"),
    ),
    *mutants(
        "mtf_imaging/networks/operations/resampling.py",
        _OPERATIONS,
        ("Padding(n, n + sum(pair), pair[0], mode)", "Padding(n, n + sum(pair), pair[1], mode)"),
        ("weights /= weights.sum(0)", "pass"),
    ),
    *mutants(
        "mtf_imaging/networks/onnx/operators/normalization.py",
        f"{_ONNX} statistics",
        ("exponential_avg_factor=share", "exponential_avg_factor=1 - share"),
    ),
    *mutants(
        "mtf_imaging/networks/nnunet/preprocessing.py",
        "tests/networks/test_nnunet.py not resampling",
        ("mean {mean:.15g} sd {std:.15g}", "mean {mean:.15g} sd {mean:.15g}"),
        ("for _, value in sorted(zip(names, values, strict=True))", "for value in values"),
    ),
    *mutants(
        "models/imported/network.py",
        f"{_COMMANDS} equal",
        ("key=lambda dim: self.axes.index(dim.name)", "key=lambda dim: dim.name"),
    ),
    *mutants(
        "mtf_imaging/inference/averages.py",
        f"{_COMMANDS} equal",
        ("own, sizes, tuple(axes)))", "own, sizes, ()))"),
    ),
    *mutants(
        "mtf_imaging/data/sampling/own_size.py",
        f"{_COMMANDS} equal or window",
        ("zip(self.spacing or spacing, spacing", "zip(self.spacing or (1.0, 1.0, 1.0), spacing"),
        ("math.ceil(max(pair) / self.multiple) * self.multiple", "max(pair)"),
    ),
    *mutants(
        "mtf_imaging/data/sampling/nnunet.py",
        "tests/networks/test_nnunet.py resampled",
        ("own * n / new", "mm"),
        ("for mm in (first, second)", "for mm in (second, first)"),
        ("NEAREST if a == back else LINE", "LINE"),
    ),
    *mutants(
        "mtf_imaging/data/images/normalized.py",
        "tests/networks/test_nnunet.py resampled",
        ("np.clip(values, *bounds_of(slab))[inside]", "values[inside]"),
        ("values[inside] = np.clip(values, *bounds_of(slab))[inside]", "np.clip(values, *bounds_of(slab), out=values)"),
        ("if apart is None:", "if True:"),
    ),
    *mutants(
        "mtf_imaging/data/images/nonzero.py",
        _PREDICTIONS,
        ("= _TINY", "= 0"),
        ("mask = scipy.ndimage.binary_fill_holes(mask[crop])", "mask = mask[crop]"),
        ("if found[0].any() else", "if False else"),
    ),
    *mutants(
        "mtf_imaging/data/description/description.py",
        _PREDICTIONS,
        ("return 0.0 if self.has_logits else 0.5", "return 0.5"),
    ),
    *mutants(
        "mtf_imaging/data/sampling/sampling.py",
        f"{_PREDICTIONS} folds",
        ("if axis in self.reversed_axes", "if False"),
        (".part(slice(-at.start, n - at.start))", ".part(slice(0, n))"),
    ),
    *mutants(
        "mtf_imaging/training/prediction.py",
        f"{_PREDICTIONS} folds",
        (
            "self.change(network_of_slices(program_slices(program, self.progress)))",
            "network_of_slices(program_slices(program, self.progress))",
        ),
    ),
]
