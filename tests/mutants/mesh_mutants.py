"""Faults of meshes/: tails, halos, and functions of slices."""

from tests.mutants.mutant import mutants

_POISONED = (
    "tests/engine/meshes/test_tails.py tests/engine/meshes/test_poison.py tests/engine/upstream/test_slicewise.py"
)
_HALO = "tests/engine/meshes/test_margin.py tests/engine/meshes/test_halo.py"
_OPS = "tests/engine/ops/test_uneven_windows.py test_equals_the_whole or float64"

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/meshes/tails.py",
        _POISONED,
        (
            "return -math.inf if dtype.is_floating else dtype.min",
            "return 0",
            "",
            "tests/engine/ops/test_nonfinite.py reductions",
        ),
        (
            "return math.inf if dtype.is_floating else dtype.max",
            "return 0",
            "",
            "tests/engine/ops/test_nonfinite.py reductions",
        ),
        ("dim.size % mesh.shape[axis].size and", "dim.size % mesh.shape[axis].size > 1 and"),
        ("return _filled(stack, masks, value) if masks else stack", "return stack"),
        ("np.arange(tail.size) >= tail.whole", "np.arange(tail.size) > tail.whole"),
        (
            "tf.where(tf.reshape(condition, [-1, 1]), value, rows)",
            "tf.where(tf.reshape(condition, [-1, 1]), rows, value)",
        ),
        ("functools.reduce(np.logical_or, wide, np.zeros(lead, bool))", "functools.reduce(np.logical_and, wide)"),
        ("    shape[dim + 1] = mask.shape[1]", "    shape[dim] = mask.shape[1]"),
        ("np.clip(tail.whole - own * tail.size, 0, tail.size)", "np.clip(tail.whole - own * tail.size, 1, tail.size)"),
        ("* tail.size - 1, 0, tail.size - 1)", "* tail.size, 0, tail.size - 1)"),
        ("return [any(at[tail.axis] * tail.size >= tail.whole", "return [any(at[tail.axis] * tail.size > tail.whole"),
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
        "mtf_imaging/engine/meshes/halo/margin.py",
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
    ),
    *mutants(
        "mtf_imaging/engine/meshes/halo/planning.py",
        _HALO,
        ("max(m.before, m.after) > m.size", "max(m.before, m.after) > 2 * m.size"),
        ("            sizes[m.dim] = m.width if kinds[m] is Read else m.before + m.size + m.after\n", ""),
        ("return [exchange.reversed() for exchange in sent] if adjoint else sent", "return sent"),
        ("((), padded) if joined else (padded, ())", "(padded, ())"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/halo/writing.py",
        _HALO,
        ("[i - distance if 0 <= i - distance < n else None", "[(i - distance) % n if True else None"),
        (
            "[i - distance if 0 <= i - distance < n else None for",
            "[i + distance if 0 <= i + distance < n else None for",
        ),
        ("cut(stack, {dim: (piece.target, voxels)}) + pad(value, own, 0) if adds", "pad(value, own, 0) if adds"),
        ("Piece(piece.voxels, -piece.distance,", "Piece(piece.voxels, piece.distance,"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/halo/steps.py",
        _HALO,
        (
            "np.where((voxels >= 0) & (voxels < size), voxels, size)",
            "np.clip(voxels, 0, size - 1)",
            "",
            _OPS,
        ),
        ("return {m.dim: (m.before, m.size) for m", "return {m.dim: (m.after, m.size) for m"),
        ("pads[m.dim + 2 - first] = [m.before, m.after]", "pads[m.dim + 2 - first] = [m.after, m.before]"),
        ("pads, constant(fill, stack.dtype)", "pads, constant(0, stack.dtype)"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/halo/gathering.py",
        _HALO,
        ("constant_values=constant(fill, stack.dtype)", "constant_values=constant(0, stack.dtype)"),
        ("math.prod(slice_shape[m.dim + 1 :]) * itemsize", "math.prod(slice_shape[m.dim :]) * itemsize"),
        ("np.arange(-m.before, size + m.after)", "np.arange(-m.before + 1, size + m.after + 1)"),
        ("np.where((at < 0) | (at >= parts * size), num_rows, table)", "np.where(at < 0, num_rows, table)"),
        ("(at < 0) | (at >= parts * size)", "(at < 1) | (at >= parts * size)"),
        ("math.prod(local[m.axis + 1 :]) if is_gathered", "math.prod(local[m.axis :]) if is_gathered"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/local.py",
        "tests/engine/meshes/test_local.py tests/engine/upstream/test_slicewise.py tests/engine/meshes/test_graph.py",
        ("if not (keep_gradient and _defines_gradient(call, stacks)):", "if not keep_gradient or True:"),
        ("if not fits or (by_channel", "if not fits and (by_channel"),
        (
            "    source: tf.Tensor | None = x\n    while source is not None",
            "    source: tf.Tensor | None = None\n    while source is not None",
        ),
        ("reshape(y, stacks[0].shape), fn(*sources))", "reshape(y, stacks[0].shape), fn(*stacks[::-1]))"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/halo/far.py",
        "tests/engine/meshes/test_halo.py",
        ("begin - at * length, begin - first))", "begin - first, begin - first))"),
        ("constant_values=constant(fill, line.dtype)", "constant_values=constant(0, line.dtype)"),
        ("(piece.write, length - piece.write - piece.voxels)", "(length - piece.write - piece.voxels, piece.write)"),
        ("holders = min(number, -(-width // margin.size))", "holders = min(number, width // margin.size)"),
        ("np.where((slice_number >= 0) & (at < width),", "np.where(slice_number >= 0,"),
        ("(to + 1) * length + margin.after", "(to + 1) * length + margin.before"),
        (
            "(mesh, _cut(mesh, line, margin), margin, x.slice_shape)",
            "(mesh, _cut(mesh, line, margin)[:, ::-1], margin, x.slice_shape)",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/halo/joining.py",
        "tests/engine/meshes/test_halo.py",
        ("{dim - 1: (self.margin.size - before, before)}", "{dim - 1: (0, before)}"),
        ("{dim - 1: (0, after)}", "{dim - 1: (self.margin.size - after, after)}"),
        ("_filled(stack, dim, before, fill)", "_filled(stack, dim, before, 0)"),
        ("_filled(stack, dim, after, fill)", "_filled(stack, dim, after, 0)"),
        (
            "head, tail = margin.after if at > 0 else 0, margin.before if at < shards - 1 else 0",
            "head, tail = margin.before if at > 0 else 0, margin.after if at < shards - 1 else 0",
        ),
        ('own["head"] += from_previous', 'own["head"] = from_previous'),
        ('own["tail"] += from_next', 'own["tail"] = from_next'),
        (
            "_padded(from_previous, dim, 0, joined.shape[dim] - from_previous.shape[dim])",
            "_padded(from_previous, dim, joined.shape[dim] - from_previous.shape[dim], 0)",
        ),
        (
            "_padded(from_next, dim, joined.shape[dim] - from_next.shape[dim], 0)",
            "_padded(from_next, dim, 0, joined.shape[dim] - from_next.shape[dim])",
        ),
        ("if distance > 0 else", "if distance < 0 else"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/collectives.py",
        "tests/engine/meshes/test_collectives.py",
        ('"MIN": tf.reduce_min', '"MIN": tf.reduce_max'),
        ("math.prod(local[axis] for axis in axes) if stack.shape[0] == 1 else 1", "1"),
        ("list(range(0, n * n, n + 1))", "list(range(n))"),
        (
            "tf.gather(_split_for_shards(view, dim, axis, grid), shard, axis=dim)",
            "_split_for_shards(view, dim, axis, grid)[(slice(None),) * dim + (0,)]",
        ),
        ("first == last_first + count)", "first >= last_first)"),
        ("constant(fill, dtype))", "constant(0, dtype))"),
        ("functools.partial(piece_of, position)", "functools.partial(piece_of, 0)"),
        ("tf.concat(from_all, ndims + concat_dim)", "tf.concat(from_all[::-1], ndims + concat_dim)"),
        ("concat = ndims + 1 + concat_dim", "concat = ndims + 1 + split_dim"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/local.py",
        "tests/engine/meshes/test_whole.py tests/engine/upstream/test_uneven.py imported or extends or box",
        ("np.minimum(np.arange(size), x.shape[dim] - 1)", "np.minimum(np.arange(size), x.shape[dim] - 2)"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/whole.py",
        "tests/engine/meshes/test_whole.py",
        ("0 if axis is None else shard[axis] for axis in split)", "0 for axis in split)"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/laid_out.py",
        "tests/engine/ops/test_sixteen_bits.py once",
        ("partial = mesh.cast(partial, partial_dtype(partial.dtype))", "partial = mesh.cast(partial, tf.bfloat16)"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/mesh_impl.py",
        "tests/engine/ops/test_sixteen_bits.py once",
        ("self.cast(x, local.partial_dtype(x.dtype)), summed_axes", "x, summed_axes"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/deferred.py",
        "tests/engine/meshes/test_deferred.py",
        ("size * _BUCKETS // total", "size * _BUCKETS // (2 * total)"),
        ("        if number > last:", "        if number >= last:"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/random/positions.py",
        "tests/engine/program/test_program.py tests/engine/upstream/test_uneven.py random",
        ("strides = [math.prod(whole for whole, _ in", "strides = [math.prod(size for _, size in"),
        ("_multiples(begins[:, d], strides[d])", "_multiples(0 * begins[:, d], strides[d])"),
        ("_multiples(np.arange(dims[d][1]), strides[d])", "_multiples(np.arange(dims[d][1]), 1)"),
        ("x = self.first + key[0] + self.rest", "x = self.first + self.rest"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/local.py",
        "tests/engine/meshes/test_local.py",
        ("at[axes.index(axis)] if axis in axes else 0 for axis in range(ndims)]", "0 for axis in range(ndims)]"),
        ("axis not in axes and axis not in summed_axes and local[axis] > 1", "axis not in axes and local[axis] > 1"),
        (
            "order += [axes.index(dim)] if dim in axes else []\n        order.append(len(axes) + dim)",
            "order += [axes[::-1].index(dim)] if dim in axes else []\n        order.append(len(axes) + dim)",
        ),
        (
            "        view = tf.broadcast_to(view, [*local, *slice_shape])\n    return tf.reshape(view,",
            "        view = tf.broadcast_to(view[::-1], [*local, *slice_shape])\n    return tf.reshape(view,",
        ),
        (
            "kept[dim + 1] = size\n    return stack if",
            "kept[dim + 1] = min(size + 1, kept[dim + 1])\n    return stack if",
        ),
        (
            "            view = tf.gather(view, own, axis=axis)\n    return",
            "            view = tf.gather(view, sorted(range(len(own))), axis=axis)\n    return",
            "",
            "tests/engine/ops/test_uneven_windows.py test_equals_the_whole or float64",
        ),
    ),
]
