"""Faults of upstream/: gradients of functions of slices, and products and sums."""

from tests.mutants.mutant import mutants

_SLICEWISE = "tests/upstream/test_slicewise.py tests/upstream/test_functions.py"
_FUNCTIONS = "tests/upstream/test_ops.py tests/upstream/test_corrections.py"

MUTANTS = [
    *mutants(
        "mtf_imaging/upstream/slicewise.py",
        _SLICEWISE,
        ("arguments = [_argument(mesh, op, value) for value in defined]", "arguments = defined"),
        ("return tf.gradients(ys, xs, dys, stop_gradients=xs)", "return tf.gradients(ys, xs, dys)"),
        ("return tf.gradients(ys, xs, dys, stop_gradients=xs)", "return [tf.zeros_like(x) for x in xs]"),
        (
            "else lowering.masked(x) for x in op.inputs]",
            "else lowering.tensors[x] for x in op.inputs]",
            "",
            "tests/upstream/test_uneven.py tests/upstream/test_slicewise.py",
        ),
        (
            "lowering.masked(dy, call.summed_tails).to_laid_out_tensor()",
            "lowering.tensors[dy].to_laid_out_tensor()",
            "",
            "tests/upstream/test_slicewise.py tests/upstream/test_uneven.py",
        ),
        ("summed = sorted(axes - _axes(mesh, forward.inputs[i].shape))", "summed = []"),
        ("            gradient = tails.zero_empty_slices(mesh, gradient, absent)\n", ""),
        ("mesh.map_stacks(tf.add, totals[i], gradient) if i in totals else gradient", "gradient"),
    ),
    *mutants(
        "mtf_imaging/upstream/broadcasting.py",
        _FUNCTIONS,
        ("if order != sorted(order):", "if False:"),
        ("stack * number if multiplies else stack + number", "stack * number if multiplies else stack - number"),
        (
            '"MAX": tails.lowest(x.dtype), "MIN": tails.highest(x.dtype)',
            '"MAX": 0, "MIN": 0',
            "",
            "tests/ops/test_nonfinite.py reductions or mesh_tensorflow",
        ),
        (
            "lowering.masked(x, [dim.name for dim in missing], fill)",
            "lowering.tensors[x].to_laid_out_tensor()",
            "",
            "tests/upstream/test_uneven.py tests/meshes/test_poison.py",
        ),
        ("    if axes:\n        value = mtf.LazyAllreduceSum", "    if False:\n        value = mtf.LazyAllreduceSum"),
        ("dims.index(dim) for dim in full if dim in dims]", "dims.index(dim) for dim in dims if dim in full]"),
        (
            "call = mesh.slicewise_delay_allreduce if fn == tf.add else mesh.elementwise",
            "call = mesh.slicewise_delay_allreduce",
        ),
    ),
]
