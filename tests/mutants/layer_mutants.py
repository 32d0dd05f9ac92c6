"""Faults of layers/, and of the operations that networks of layers need."""

from tests.mutants.mutant import mutants

_BLOCKS = "tests/engine/ops/test_building_blocks.py"
_KERAS = "tests/training/test_keras.py tests/training/test_keras_comparison.py"
_LAYERS = "tests/engine/layers/test_layers.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/ops/smooth.py",
        f"{_BLOCKS} tests/engine/ops/test_ops_equal_whole.py tests/engine/ops/test_second_derivatives.py gelu or silu",
        ("(1 + 3 * _TANH_CUBE * x * x)", "(1 + _TANH_CUBE * x * x)"),
        ("return s * (1 + x * (1 - s))", "return s * (1 + x)"),
        ("SmoothGrad(self.kind, x, dy * ddx, self._order + 1)", "SmoothGrad(self.kind, x, ddx, self._order + 1)"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/norm/layer.py",
        f"{_BLOCKS} tests/engine/ops/test_ops_equal_whole.py tests/engine/ops/test_second_derivatives.py layer_norm",
        (" - mean_dy - normal * mean_product", " - mean_dy"),
        ("tail in uneven], 0) if uneven else values", "tail in uneven], 1) if uneven else values"),
        ("lambda s: s / channels.size", "lambda s: s"),
    ),
    *mutants(
        "mtf_imaging/engine/ops/space/local.py",
        f"{_BLOCKS} tests/engine/ops/test_ops_equal_whole.py depth or space",
        ("for axis in (1 + i, 1 + ndims + i)]", "for axis in (1 + ndims + i, 1 + i)]"),
        ("[0, *(i - 1 for i in within), *within,", "[0, *within, *(i - 1 for i in within),"),
    ),
    *mutants(
        "mtf_imaging/engine/layers/layer.py",
        _LAYERS,
        ("if x.graph not in self._places:", "if True:"),
        ("self.name or _number(self.default_name)", "_number(self.name or self.default_name)"),
    ),
    *mutants(
        "mtf_imaging/engine/layers/weights.py",
        _LAYERS,
        ("dtype=master_dtype(x.dtype)", "dtype=x.dtype"),
        ("if master.shape != shape:", "if False:"),
    ),
    *mutants(
        "mtf_imaging/engine/layers/residual.py",
        _LAYERS,
        ("return activate(x + y, self.activation)", "return activate(y, self.activation)"),
        ("Conv(y.shape.dims[-1].size, size, strides,", "Conv(y.shape.dims[-1].size, size, 1,"),
    ),
    *mutants(
        "mtf_imaging/training/keras/layers.py",
        _KERAS,
        ("kernel.reshape(*kernel.shape[:-2], 1, -1)", "kernel.swapaxes(-1, -2).reshape(*kernel.shape[:-2], 1, -1)"),
        ('weights.pop("beta", np.zeros_like(some))', 'weights.pop("beta", np.ones_like(some))'),
        ("if not (is_from_keras(own) and own.__name__ in LAYERS)", "if own.__name__ not in LAYERS"),
        ("if rest or len({*names}) < len(names)", "if len({*names}) < len(names)"),
        ("if rest or len({*names}) < len(names)", "if rest"),
        ('{"axis": -1, "rms_scaling": False}', '{"axis": -1}'),
        ('_LAST | {"dilation_rate": 1}', "_LAST"),
        ("if id(weight) not in known", "if False"),
        ("(is_from_keras(type(layer)) or not only_keras)", "True"),
    ),
    *mutants(
        "mtf_imaging/training/keras/comparison.py",
        _KERAS,
        ("if not difference <= allowed * size", "if difference > allowed * size"),
        ("TOLERANCE, HALF_TOLERANCE = 1e-4, 5e-2", "TOLERANCE, HALF_TOLERANCE = 1e-2, 5e-2"),
        ("(names if {*names} == images.keys() else images)", "images"),
    ),
    *mutants(
        "mtf_imaging/training/keras/importing.py",
        _KERAS,
        ("kept = before | values", "kept = values"),
        ("program.step.assign(step)", "str(step)"),
        ("kept = before\n", "kept = {}\n"),
    ),
]
