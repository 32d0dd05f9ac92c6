"""Faults of meshes/: tails, halos, and functions of slices."""

from tests.mutants.mutant import mutants

_POISONED = "tests/meshes/test_tails.py tests/meshes/test_poison.py tests/upstream/test_slicewise.py"
_HALO = "tests/meshes/test_margin.py tests/meshes/test_halo.py"
_OPS = "tests/ops/test_uneven_windows.py test_equals_the_whole or float64"

MUTANTS = [
    *mutants(
        "mtf_imaging/meshes/tails.py",
        _POISONED,
        (
            "return -math.inf if dtype.is_floating else dtype.min",
            "return 0",
            "",
            "tests/ops/test_nonfinite.py reductions",
        ),
        (
            "return math.inf if dtype.is_floating else dtype.max",
            "return 0",
            "",
            "tests/ops/test_nonfinite.py reductions",
        ),
        ("dim.size % mesh.shape[axis].size and", "dim.size % mesh.shape[axis].size > 1 and"),
        ("stacks.append(_filled(stack, masks, value) if masks else stack)", "stacks.append(stack)"),
        ("np.arange(tail.size) >= tail.whole", "np.arange(tail.size) > tail.whole"),
        (
            "tf.where(tf.reshape(condition, [-1, 1]), value, rows)",
            "tf.where(tf.reshape(condition, [-1, 1]), rows, value)",
        ),
        ("functools.reduce(np.logical_or, wide, np.zeros(lead, bool))", "functools.reduce(np.logical_and, wide)"),
        ("    shape[dim + 1] = mask.shape[1]", "    shape[dim] = mask.shape[1]"),
        ("np.clip(tail.whole - own * tail.size, 0, tail.size)", "np.clip(tail.whole - own * tail.size, 1, tail.size)"),
        ("np.clip(tail.whole - first - 1, 0, tail.size - 1)", "np.clip(tail.whole - first, 0, tail.size - 1)"),
        ("empty = [any(at[tail.axis] * tail.size >= tail.whole", "empty = [any(at[tail.axis] * tail.size > tail.whole"),
        (
            "return resize(mesh, x, {dim: sizes[dim] for dim in dims.values()})",
            "return x",
        ),
        (
            "{dim: -(-sizes[dim] // n) * n for dim, n in parts.items()}",
            "{dim: sizes[dim] // n * n for dim, n in parts.items()}",
        ),
        ("min(size, old[dim]), max(size - old[dim], 0)", "min(size, old[dim]), max(size - old[dim], 1)"),
    ),
    *mutants(
        "mtf_imaging/meshes/halo/margin.py",
        _HALO,
        (
            "before, after = max(0, -self.before), max(0, -self.after)",
            "before, after = max(0, -self.after), max(0, -self.before)",
        ),
        (
            "return Margin(self.dim, self.size - before - after, before, after)",
            "return Margin(self.dim, self.size - before, before, after)",
        ),
        (
            "Margin(self.dim, self.plan.length, first, self.plan.width - first - self.plan.length)",
            "Margin(self.dim, self.plan.length, 0, self.plan.width - self.plan.length)",
        ),
        (
            "range(1, min(-(-self.before // self.size), parts - 1) + 1)",
            "range(1, min(-(-self.before // self.size), parts - 1))",
        ),
        ("voxels = min(self.size, self.before - (hop - 1) * self.size)", "voxels = min(self.size, self.before)"),
        ("self.before + self.size - voxels, self.before", "self.before + self.size - voxels - 1, self.before"),
        (
            "range(1, min(-(-self.after // self.size), parts - 1) + 1)",
            "range(1, min(self.after // self.size, parts - 1) + 1)",
        ),
        (
            "Piece(voxels, -hop, self.before, self.before + hop * self.size)",
            "Piece(voxels, hop, self.before, self.before + hop * self.size)",
        ),
        ("max(margin.before, margin.after) > margin.size", "max(margin.before, margin.after) > 2 * margin.size"),
    ),
    *mutants(
        "mtf_imaging/meshes/halo/widening.py",
        _HALO,
        ("[i - distance if 0 <= i - distance < n else None", "[(i - distance) % n if True else None"),
        (
            "[i - distance if 0 <= i - distance < n else None for",
            "[i + distance if 0 <= i + distance < n else None for",
        ),
        ("_read(stack, dim, piece.source, voxels) + _pad(value, own, 0)", "_pad(value, own, 0)"),
        (
            "values = _shifted(mesh, values, margin.axis, -piece.distance, 0)",
            "values = _shifted(mesh, values, margin.axis, piece.distance, 0)",
        ),
        ("            dx = far.narrow(mesh, dx, margin)", "            dx = _cut_out(mesh, dx, [margin])"),
        (
            "[r - start if 0 <= r - start < length else length for r in range(width)]",
            "[min(max(r - start, 0), length - 1) for r in range(width)]",
            "",
            _OPS,
        ),
        ("begin[m.dim + 1], size[m.dim + 1] = m.before, m.size", "begin[m.dim + 1], size[m.dim + 1] = m.after, m.size"),
        ("pads[m.dim + 2 - first] = [m.before, m.after]", "pads[m.dim + 2 - first] = [m.after, m.before]"),
        ("constant_values=constant(fill, stack.dtype)", "constant_values=constant(0, stack.dtype)"),
    ),
    *mutants(
        "mtf_imaging/meshes/halo/gathering.py",
        _HALO,
        ("constant_values=constant(fill, stack.dtype)", "constant_values=constant(0, stack.dtype)"),
        ("np.arange(-m.before, size + m.after)", "np.arange(-m.before + 1, size + m.after + 1)"),
        ("np.where((at < 0) | (at >= parts * size), num_rows, table)", "np.where(at < 0, num_rows, table)"),
        ("(at < 0) | (at >= parts * size)", "(at < 1) | (at >= parts * size)"),
        ("math.prod(local[m.axis + 1 :]) if gathered", "math.prod(local[m.axis :]) if gathered"),
    ),
    *mutants(
        "mtf_imaging/meshes/local.py",
        "tests/meshes/test_local.py tests/upstream/test_slicewise.py tests/meshes/test_graph.py",
        ("if not (keep_gradient and _defines_gradient(call, stacks)):", "if not keep_gradient or True:"),
        ("if not fits or (by_channel", "if not fits and (by_channel"),
        (
            "    source: tf.Tensor | None = x\n    while source is not None",
            "    source: tf.Tensor | None = None\n    while source is not None",
        ),
        ("reshape(y, stacks[0].shape), fn(*sources))", "reshape(y, stacks[0].shape), fn(*stacks[::-1]))"),
    ),
]
