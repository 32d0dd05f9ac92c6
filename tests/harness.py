"""The one harness for "a layout never changes results".

A `Case` is an op on named tensors and TensorFlow's on whole ones. `check` compares values and the gradients to every
input: the program under a layout against TensorFlow on the whole tensors.
"""

import dataclasses
import zlib

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.layout import parse_layout, parse_shape
from tests.exchanges import check_exchanges

# Largest difference allowed, as a share of the largest value. bfloat16 keeps 8 bits: sums in another order differ by
# that.
TOLERANCES = {"float32": 1e-5, "float64": 1e-12, "bfloat16": 3e-2}


@dataclasses.dataclass(frozen=True)
class Case:
    """An op to compare.

    Attributes:
      name: for the test's id.
      fn: from mtf tensors, by the names of `shapes`, to an mtf tensor.
      reference: from TensorFlow tensors, in the order of `shapes`, to a tensor.
      shapes: named shapes of the inputs.
      windows: for each spatial dimension that the op slides over, (name, input size, output size): what N must divide.
      integers: for an input of class labels or of repeated values, the number of different values.
      labels: names of integer inputs, which have no gradient.
    """

    name: str
    fn: object
    reference: object
    shapes: dict
    windows: tuple = ()
    integers: dict = dataclasses.field(default_factory=dict)
    labels: tuple = ()

    def __str__(self):
        return self.name

    def values(self):
        """The same inputs every time, float64 or int32."""
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        made = {}
        for key, shape in self.shapes.items():
            sizes = [n for _, n in parse_shape(shape)]
            if key in self.integers:
                made[key] = rng.integers(0, self.integers[key], sizes).astype(np.int32 if key in self.labels else float)
            else:
                made[key] = rng.standard_normal(sizes)
        return made

    def allows(self, mesh_shape, layout):
        """Whether the layout is legal, by the plainest rule: N divides every size that it splits."""
        mesh = dict(parse_shape(mesh_shape))
        sizes = {(name, size) for shape in self.shapes.values() for name, size in parse_shape(shape)}
        for name, before, after in self.windows:
            sizes |= {(name, before), (name, after)}
        names = {name for name, _ in sizes}
        rules = parse_layout(layout)
        return all(dim in names for dim, _ in rules) and all(
            size % mesh[rule] == 0 for dim, rule in rules for name, size in sizes if name == dim
        )


_references = {}


def _cotangent(shape):
    """Weights of the outputs in the scalar that is differentiated:

    All different, so that no two places can be swapped.
    """
    return np.cos(np.arange(int(np.prod(shape)), dtype=np.float64)).reshape(shape)


def _cast(case, dtype):
    return {k: tf.constant(v) if k in case.labels else tf.cast(v, dtype) for k, v in case.values().items()}


def reference(case, dtype):
    """TensorFlow's output and gradients on whole tensors, in a graph (its kernels differ from eager ones)."""
    key = (case.name, dtype)
    if key not in _references:
        values = _cast(case, dtype)
        inputs = [v for k, v in values.items() if k not in case.labels]

        @tf.function
        def run():
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                y = case.reference(*values.values())
                total = tf.reduce_sum(y * tf.cast(_cotangent(y.shape), y.dtype))
            return y, tape.gradient(total, inputs)

        y, gradients = run()
        _references[key] = [v.numpy().astype(np.float64) for v in (y, *gradients)]
    return _references[key]


def program(case, dtype, mesh_shape, layout, mesh_impl, devices=None):
    """A program that returns the op's output and its gradients."""

    def fn(cotangent, **inputs):
        y = case.fn(**inputs)
        total = mi.mtf.reduce_sum(y * mi.mtf.reshape(cotangent, y.shape))
        return y, *mi.mtf.gradients([total], [v for k, v in inputs.items() if k not in case.labels])

    size = reference(case, dtype)[0].size
    specs = {k: (s, "int32" if k in case.labels else dtype) for k, s in case.shapes.items()}
    inputs = {"cotangent": (f"cotangent:{size}", dtype), **specs}
    options = {"mesh_shape": mesh_shape, "layout": layout, "mesh_impl": mesh_impl, "devices": devices}
    made = mi.Program(fn, inputs, **options)
    # Processors of one device exchange gathered margins first, so their corners travel in other strips.
    if mesh_impl == "placement" and made.mesh_impl.grid.stack_size == 1:
        check_exchanges(made, fn, inputs)
    return made


def difference(value, expected):
    """The largest difference as a share of the largest value."""
    value = np.asarray(value, np.float64)
    assert value.shape == expected.shape
    return np.abs(value - expected).max() / max(np.abs(expected).max(), 1e-30)


def check(case, dtype, mesh_shape, layout, mesh_impl, devices=None):
    """Asserts that values and all gradients equal TensorFlow's on the whole tensors."""
    expected = reference(case, dtype)
    p = program(case, dtype, mesh_shape, layout, mesh_impl, devices)
    cotangent = _cotangent(expected[0].shape).ravel()
    results = p(cotangent=tf.cast(cotangent, dtype), **_cast(case, dtype))
    worst = [difference(tf.cast(r, tf.float64), e) for r, e in zip(results, expected, strict=True)]
    assert max(worst) <= TOLERANCES[dtype], f"output and gradients differ by {worst}"
