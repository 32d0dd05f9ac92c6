"""Faults of program/: inputs, masks and illegal layouts."""

from tests.mutants.mutant import mutants

_STATE = "tests/training/test_state_oracle.py sgd or adam"

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/program/lowering.py",
        "tests/engine/meshes/test_poison.py tests/engine/upstream/test_uneven.py tests/engine/program/test_program.py",
        ("(x.masked and fill == 0):", "x.masked:", "", "tests/engine/ops/test_small_faults.py"),
        (
            "filled = tails.fill(mesh, x, tails.tails_of(mesh, tensor.shape), fill)",
            "filled = tails.fill(mesh, x, tails.tails_of(mesh, tensor.shape)[:1], fill)",
        ),
        (
            "            x.filled[fill] = filled",
            "            x.filled[0] = filled",
            "",
            "tests/engine/upstream/test_uneven.py tests/engine/ops/test_nonfinite.py",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/program/inputs.py",
        "tests/training/test_labels.py ignore_label or training_names",
        ("labels.min() >= first and labels.max() <= last", "labels.max() <= last"),
        ("labels.max() <= last", "labels.max() <= max(values)"),
        ("{part.start + i}", "{i + 1}"),
    ),
    *mutants(
        "mtf_imaging/engine/program/inputs.py",
        "tests/engine/program/test_inputs.py",
        ("if (rank(source) or 0) > (rank(target) or 0):", "if (rank(source) or 0) > (rank(target) or 0) + 1:"),
        ("values.min() < low or values.max() > high", "values.max() > high"),
        ("if list(array.shape) != sizes:", "if len(array.shape) != len(sizes):"),
        ("part.stop - part.start for part in region", "part.stop for part in region"),
    ),
    *mutants(
        "mtf_imaging/engine/program/program.py",
        "tests/engine/program/test_program.py",
        ("with tf.control_dependencies([computed]):", "with tf.control_dependencies([]):"),
        ('[] if updates == "none" else self.mesh_impl.assignments', "self.mesh_impl.assignments"),
        ('count_step=updates == "all"', "count_step=True"),
        ("if repeated and not may_repeat:", "if repeated and may_repeat:"),
        ("        if unknown or missing:", "        if missing:"),
    ),
    *mutants(
        "mtf_imaging/engine/program/xla.py",
        "tests/engine/program/test_xla.py",
        ("with tf.device(device):", "with contextlib.nullcontext():"),
        ('if what != "1 devices":', "if isinstance(mesh, TurnMesh):"),
        ("tf.errors.InvalidArgumentError, tf.errors.UnimplementedError", "tf.errors.UnimplementedError"),
    ),
    *mutants(
        "mtf_imaging/engine/program/variables.py",
        "tests/engine/program/test_program.py tests/training/test_micro_batches.py",
        ('f"{seed}/{name}"', 'f"{seed}"'),
        ('f"{seed}/{name}"', 'f"{name}"'),
        ("if last and count_step:", "if count_step:"),
        ("if last and count_step:", "if last:"),
        ("!= master.shape or variable.dtype != master.dtype:", "!= master.shape:"),
        (
            "owner.device if owner else next(self._next_device)",
            "next(self._next_device)",
            "",
            "tests/engine/meshes/test_sent.py optimizer",
        ),
        ("shared._named", "dict(shared._named)"),
        ("in assignments:", "in {id(a[0]): a for a in assignments}.values():", "", _STATE),
        ("in assignments:", "in reversed(list(assignments)):", "", "tests/engine/program/test_program.py order"),
    ),
    *mutants(
        "mtf_imaging/engine/upstream/effects.py",
        "tests/engine/program/test_program.py order or drop",
        ("laid_out.is_assigned and", "False and"),
        ("op.assign_fn is mtf.assign_slice and", ""),
        ("and depends_on(value, variable.value)", ""),
    ),
    *mutants(
        "mtf_imaging/engine/program/checks.py",
        "tests/engine/program/test_program.py faults or may_split or not_split or unused",
        ("if sizes.get(rule, 1) == 1:\n            continue", "if sizes.get(rule, 1) <= 2:\n            continue"),
        ("list(op_faults.values()) + _clash_faults(graph, layout)", "list(op_faults.values())"),
        ("op_faults.setdefault(fault.key, fault.text)", 'op_faults.setdefault("", fault.text)'),
    ),
    *mutants(
        "mtf_imaging/engine/program/memory.py",
        "tests/test_memory.py tests/test_doctests.py memory",
        ("mesh_impl.grid.stack_size if mesh_impl.is_split(tensor.shape) else 1", "1"),
        ("max(entries, key=lambda entry: entry[:2])", "min(entries, key=lambda entry: entry[:2])"),
        ("math.prod(slice_shape) * tensor.dtype.size", "math.prod(slice_shape)"),
    ),
]
