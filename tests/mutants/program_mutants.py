"""Faults of program/: inputs, masks and illegal layouts."""

from tests.mutants.mutant import mutants

MUTANTS = [
    *mutants(
        "mtf_imaging/program/lowering.py",
        "tests/meshes/test_poison.py tests/upstream/test_uneven.py tests/test_program.py",
        ("(x.masked and fill == 0):", "x.masked:", "", "tests/upstream/test_uneven.py tests/ops/test_nonfinite.py"),
        (
            "filled = tails.fill(mesh, x, tails.tails_of(mesh, tensor.shape), fill)",
            "filled = tails.fill(mesh, x, tails.tails_of(mesh, tensor.shape)[:1], fill)",
        ),
        (
            "            x.widened[key] = filled",
            '            x.widened["tails", 0] = filled',
            "",
            "tests/upstream/test_uneven.py tests/ops/test_nonfinite.py",
        ),
    ),
    *mutants(
        "mtf_imaging/program/inputs.py",
        "tests/test_inputs.py",
        ("if (rank(source) or 0) > (rank(target) or 0):", "if (rank(source) or 0) > (rank(target) or 0) + 1:"),
        ("values.min() < low or values.max() > high", "values.max() > high"),
        ("if list(array.shape) != sizes:", "if len(array.shape) != len(sizes):"),
        (
            "part.stop - part.start for part in region",
            "part.stop for part in region",
            "",
            "tests/test_inputs.py tests/test_program.py tests/between/test_slices.py",
        ),
    ),
    *mutants(
        "mtf_imaging/program/program.py",
        "tests/test_program.py",
        ("with tf.control_dependencies([computed]):", "with tf.control_dependencies([]):"),
        ('[] if updates == "none" else self.mesh_impl.assignments', "self.mesh_impl.assignments"),
        ('count_step=updates == "all"', "count_step=True"),
        ("if self._repeated and not may_repeat:", "if self._repeated and may_repeat:"),
        ("        if unknown or missing:", "        if missing:"),
    ),
]
