"""Faults of processors that take turns."""

from tests.mutants.mutant import mutants

_TURNS = "tests/engine/ops/test_in_turns.py"
_PARTS = "tests/engine/turns/test_turns.py"
_ALL = f"{_TURNS} turns or placement or loop or folder or disk"

MUTANTS = [
    *mutants(
        "mtf_imaging/engine/meshes/turns.py",
        _ALL,
        ("source = sources[at[axis]]", "source = at[axis]"),
        ("repeats = math.prod(self._sizes[axis] for", "repeats = math.prod(1 for"),
        ("reduced = along.intersection(axes)", "reduced = frozenset(along)", "", f"{_TURNS} equals_the_whole"),
        ("index = index * self._sizes[axis] + self.places[axis]", "index = self.places[axis]", "", _TURNS),
        ("at = self.places[axis] * size + np", "at = self.places[axis] + np"),
        ("tf.where(self.table(exists), x, constant(fill, x.dtype))", "x", "", _TURNS),
        ("dict(zip(self.coordinates, keys))", "{}", "", _PARTS),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/turn_mesh.py",
        f"{_TURNS} same_stages",
        ("if not self.transport.is_between_processes:", "if True:"),
        (
            "return self._alike(super().received(x, mesh_axis, source_pcoord, fill), x.tensor_list)",
            "return super().received(x, mesh_axis, source_pcoord, fill)",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/transport/between_processes.py",
        f"{_TURNS} same_stages",
        ("[] if outgoing else [own]", "[]"),
    ),
    *mutants(
        "mtf_imaging/engine/meshes/halo/reading.py",
        _ALL,
        ("_Strip([at + n for at in begin], *ends)", "_Strip([at for at in begin], *ends)"),
        ("max(0, min(needed)), min(m.size", "0, min(m.size", "", f"{_TURNS} memory_of_a_turn"),
        ("Margin(m.dim, voxels, strip.begin, m.size - strip.end)", "Margin(m.dim, voxels, 0, m.size - voxels)"),
        ("for number in range(max(map(len, readers))):", "for number in range(1):", "", _TURNS),
        ("lambda at: line - offsets[at]", "lambda at: line", "", _TURNS),
    ),
    *mutants(
        "mtf_imaging/engine/ops/window_op.py",
        f"{_TURNS} same_bits",
        ("if not any(m.mesh_axis is not None and mesh.grid.is_in_turns(m.axis) for m in margins):", "if True:"),
    ),
    *mutants(
        "mtf_imaging/engine/layout/windows.py",
        "tests/engine/layout/test_windows.py adjoint",
        ("min((i * m + pad) // stride, -(-(i * m", "max((i * m + pad) // stride, -(-(i * m"),
        ("length = max(((i + 1) * m + pad - 1) // stride", "length = max(((i + 1) * m + pad) // stride"),
        (
            "covered = max(window.span(length), *(start + m for start in starts))",
            "covered = window.span(length)",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/turns/stages.py",
        _ALL,
        ("return max(before) // 2 * 2 + in_turns", "return max(before)"),
        ('return not op.get_attr("is_training")', "return False", "a norm that is stored gives the same result"),
        ("again.add(key)", "pass", "", f"{_TURNS} computed_again"),
        ("if _serves_gradient(x) or (", "if (", "", f"{_TURNS} break_ties"),
    ),
    *mutants(
        "mtf_imaging/engine/turns/slicing.py",
        f"{_TURNS} neighbor",
        ("if not all(exists):", "if False:"),
        ("0 in source or ", "", "", _PARTS),
        ("len(source) > _MOST_DIMS", "False", "", f"{_TURNS} many_dimensions"),
        ("[turn if source is None else source", "[turn if source is None else turn"),
        ("return d, begin * times, size * times", "return d, 0, size * times"),
        (
            "tf.slice(x, begin, size)",
            "tf.slice(x, [0] * len(size), size)",
            "what is equal in all turns is equal along the split dimension",
        ),
    ),
    *mutants(
        "mtf_imaging/files/scratch.py",
        "tests/files/test_blocks.py",
        ("enough = free >= size", "enough = True", "", f"{_TURNS} space"),
        ("os.unlink(path)", "pass"),
    ),
    *mutants(
        "mtf_imaging/files/blocks.py",
        "tests/files/test_blocks.py",
        ("max(at.start, first), min(at.stop, first + side)", "first, min(at.stop, first + side)"),
        ("at = first + start - rows.start", "at = first"),
    ),
    *mutants(
        "mtf_imaging/engine/turns/schedule.py",
        "tests/training/test_prediction_parts.py",
        ("min(first_row + y.shape[_ROWS], self.streamed.num_rows)", "first_row + y.shape[_ROWS]"),
        ("mark.dim != _ROWS or", ""),
    ),
    *mutants(
        "mtf_imaging/engine/turns/store.py",
        _ALL,
        ("self._offsets[name] + turn * self.values[name].room", "self._offsets[name]"),
        ("tf.identity(self.own(value))", "tf.identity(value)", "", _PARTS),
        ("other.begin <= value.end and value.begin <= other.end", "other.begin < value.begin"),
        (
            "concurrent.futures.wait(self._pending.values())\n        self._pending, self._kept = {}, {}",
            "pass",
            "",
            f"{_TURNS} forgotten",
        ),
    ),
    *mutants(
        "mtf_imaging/engine/turns/schedule.py",
        _ALL,
        ('"MAX": tf.maximum,', '"MAX": tf.minimum,', "", _TURNS),
        ("begin = mark.places[turn] * size", "begin = turn * size", "", _TURNS),
        ("parts[0] = value if turn == 0 else parts[0]", "parts[0] = value", "all turns have the same value"),
    ),
]
