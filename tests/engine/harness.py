"""The test harness for "a layout never changes results".

A `Case` has an operation on named tensors and the same TensorFlow operation on whole tensors. `check` compares values
and the gradients with respect to all inputs, under a layout and with TensorFlow. Most cases run eagerly; a reproducible
part of them runs in a graph (`program_class`).
"""

import dataclasses
import functools
import itertools
import zlib

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_layout, parse_shape
from tests.engine.eager import EagerProgram
from tests.engine.exchanges import check_exchanges

# The largest allowed difference, relative to the largest value. bfloat16 has 8 significant bits, so the order of a sum
# changes the result.
TOLERANCES = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 3e-2}


@dataclasses.dataclass(frozen=True)
class Case:
    """An operation to compare with TensorFlow.

    Attributes:
      name: name of the test case.
      fn: a function from mtf tensors, as keyword arguments with the names in `shapes`, to an mtf tensor.
      reference: a function from TensorFlow tensors, in the order of `shapes`, to a tensor.
      shapes: {name of an input: shape}.
      integers: {name of an input: number of distinct values}, for class labels and for inputs with repeated values.
      labels: names of integer inputs, which have no gradient.
    """

    name: str
    fn: object
    reference: object
    shapes: dict
    integers: dict = dataclasses.field(default_factory=dict)
    labels: tuple = ()

    def __str__(self):
        return self.name

    def in_graph(self, dtype):
        """Returns whether only graphs give equal results: eager pools break ties differently, and sum in 16 bits."""
        return "pool" in self.name and (bool(self.integers) or dtype == "bfloat16")

    @property
    def kind(self):
        """The words of the name: the operation and its options, without sizes."""
        return "".join(letter for letter in self.name if letter.isalpha())

    def values(self):
        """Returns reproducible inputs with dtype float64 or int32."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        values = {}
        for key, shape in self.shapes.items():
            sizes = [n for _, n in parse_shape(shape)]
            if key in self.integers:
                values[key] = rng.integers(0, self.integers[key], sizes).astype(
                    np.int32 if key in self.labels else float
                )
            else:
                values[key] = rng.standard_normal(sizes)
        return values

    def allows(self, layout):
        """Returns whether all rules of a layout are for dimensions of the inputs; any number of slices is legal."""
        return _dims(layout) <= set().union(*(_names(shape) for shape in self.shapes.values()))


@functools.cache
def _names(shape):
    return frozenset(name for name, _ in parse_shape(shape))


@functools.cache
def _dims(layout):
    return frozenset(dim for dim, _ in parse_layout(layout))


def sample(rows, part):
    """Returns a reproducible random part of the rows of a table, which are `pytest.param`s with ids."""
    return [row for row in rows if zlib.crc32(row.id.encode()) < part * 2**32]


def _pairs(row):
    return set(itertools.combinations(enumerate(map(str, row)), 2))


def pairwise(rows, columns=tuple):
    """Returns a reproducible part of the rows of a table that contains every pair of values in two columns.

    Args:
      rows: sequences of equal length, whose values are distinguished by `str`.
      columns: a function from a row to its columns.
    """
    rows, pairs, kept = list(rows), set(), set()
    for number in sorted(range(len(rows)), key=lambda n: zlib.crc32(" ".join(map(str, rows[n])).encode())):
        own = _pairs(columns(rows[number]))
        if not own <= pairs:
            kept.add(number)
            pairs |= own
    return [row for number, row in enumerate(rows) if number in kept]


def assert_all_pairs(rows, table, columns=tuple):
    """Asserts that some rows contain every pair of values in two columns of a table."""
    pairs, wanted = (set().union(*(_pairs(columns(row)) for row in each)) for each in (rows, table))
    missing = wanted - pairs
    assert not missing, f"no row contains {sorted(missing)[:5]}"


# One of so many cases of a table runs in a graph.
GRAPH_PART = 12


def program_class(*words):
    """Returns `Program` for a reproducible part of the cases of a table, and `EagerProgram` for the others.

    Programs of several processes need a graph, because the keys of their collectives are those of a call.

    Args:
      *words: the values that distinguish the cases, compared by `str`; one of them is the mesh implementation.
    """
    if "collective" in words or any("in turns" in str(word) for word in words):
        return mi.Program
    number = zlib.crc32(" ".join(map(str, words)).encode())
    return mi.Program if number % GRAPH_PART == 0 else EagerProgram


def on(mesh_impl, mesh_shape):
    """Returns the arguments of `Program` for a mesh implementation.

    Args:
      mesh_impl: a mesh implementation; or "in turns" for processors that all take turns; or "half in turns" for those
        along every other mesh dimension, while the others are stacked; or "collective, half in turns".
      mesh_shape: the mesh.
    """
    if "in turns" not in mesh_impl:
        return {"mesh_impl": mesh_impl}
    names = [name for name, _ in parse_shape(mesh_shape)]
    kind = "collective" if "collective" in mesh_impl else "stacked"
    return {"mesh_impl": kind, "sequential": ",".join(names[:: 2 if "half" in mesh_impl else 1])}


def set_variables(program, values):
    """Sets variables of a program of either class; `values` is {name: value}."""
    for name, value in values.items():
        if isinstance(program, EagerProgram):
            program.variables[name] = value
        else:
            program.variables[name].assign(value)


_references = {}


def _cotangent(shape):
    """Returns distinct weights for the outputs in the differentiated scalar, so that swapped outputs are detected."""
    return np.cos(np.arange(int(np.prod(shape)), dtype=np.float64)).reshape(shape)


def _cast(case, dtype):
    return {k: tf.constant(v) if k in case.labels else tf.cast(v, dtype) for k, v in case.values().items()}


def reference(case, dtype):
    """Returns TensorFlow's output and gradients on whole tensors, computed in a graph because eager kernels differ."""
    key = (case.name, dtype)
    if key not in _references:
        values = _cast(case, dtype)
        # TensorFlow's kernels sum in 16 bits on some CPUs, and its 16-bit pools break ties differently.
        if dtype == "bfloat16" and ("conv" in case.name or "pool" in case.name):
            values = {k: tf.cast(v, "float32") if v.dtype == dtype else v for k, v in values.items()}
        inputs = [v for k, v in values.items() if k not in case.labels]

        @tf.function(autograph=False)
        def run():
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                y = case.reference(*values.values())
                total = tf.reduce_sum(y * tf.cast(tf.cast(_cotangent(y.shape), dtype), y.dtype))
            return y, tape.gradient(total, inputs)

        y, gradients = run()
        _references[key] = [v.numpy().astype(np.float64) for v in (y, *gradients)]
    return _references[key]


def difference(value, expected):
    """Returns the largest difference, relative to the largest value; infinity if a difference is not a number."""
    value = np.asarray(value, np.float64)
    assert value.shape == expected.shape
    largest = np.abs(value - expected).max() / max(np.abs(expected).max(), 1e-30)
    return np.inf if np.isnan(largest) else largest  # Python's max() ignores NaN unless it comes first


def check(case, dtype, mesh_shape, layout, mesh_impl, devices=None):
    """Asserts that the output and all gradients equal TensorFlow's results on whole tensors."""
    expected = reference(case, dtype)

    def fn(cotangent, **inputs):
        y = case.fn(**inputs)
        total = mi.mtf.reduce_sum(y * mi.mtf.reshape(cotangent, y.shape))
        return y, *mi.mtf.gradients([total], [v for k, v in inputs.items() if k not in case.labels])

    specs = {k: (s, "int32" if k in case.labels else dtype) for k, s in case.shapes.items()}
    inputs = {"cotangent": (f"cotangent:{expected[0].size}", dtype), **specs}
    options = {"mesh_shape": mesh_shape, "layout": layout, "devices": devices, **on(mesh_impl, mesh_shape)}
    words = mesh_shape, layout, mesh_impl, devices
    program_type = mi.Program if case.in_graph(dtype) else program_class(case, dtype, *words)
    program = program_type(fn, inputs, **options)
    cotangent = _cotangent(expected[0].shape).ravel()
    results = program(cotangent=tf.cast(cotangent, dtype), **_cast(case, dtype))
    worst = [difference(tf.cast(r, tf.float64), e) for r, e in zip(results, expected, strict=True)]
    assert max(worst) <= TOLERANCES[dtype], f"output and gradients differ by {worst}"
    # Processors of one device exchange gathered margins first, so other strips contain the corners.
    if mesh_impl == "placement" and program.mesh_impl.grid.stack_size == 1:
        check_exchanges(program, fn, inputs)
