"""Sums over split dimensions whose partial sums are much larger than the sums, for 16-bit dtypes.

If partial sums are rounded before they are added, their rounding errors exceed the sums. The references are float64.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from tests.engine.exchanges import check_exchanges

mtf, ops = mi.mtf, mi.ops
SIZE = 13  # the size of the split dimension, which 2, 3 and 5 processors split unevenly
ROUNDING = {"bfloat16": 2**-8, "float16": 2**-11}  # the largest relative error of rounding


@dataclasses.dataclass(frozen=True)
class Sum:
    """A sum over a split dimension.

    Attributes:
      fn: the sum as a function of the mtf.Tensors `large`, whose values cancel, and `other`.
      reference: the same as a function of tf.Tensors.
      large: shape of `large`; the values depend on the position along dimension `s`.
      other: shape of `other`.
      roundings: number of roundings in the unsplit computation.
      mesh, layout: more mesh dimensions and rules, if dimension `s` is split.
    """

    fn: Callable
    reference: Callable
    large: str
    other: str = "one:1"
    roundings: int = 1
    mesh: str = ""
    layout: str = ""


def _gradient(y, weights, x):
    return mtf.gradients([mtf.reduce_sum(mtf.cast(y * weights, tf.float32))], [x])[0]


def _tf_gradient(fn, weights, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(fn(x) * weights)
    return tape.gradient(loss, x)


def _filter(x, channels):
    return mtf.constant(x.mesh, 0.5, mtf.Shape([mtf.Dimension("k0", 3), mtf.Dimension("k1", 2), *channels]), x.dtype)


def _filter_gradient(strides):
    def fn(large, other):
        f = _filter(large, [other.shape.dims[-1], large.shape.dims[-1]])
        return _gradient(ops.conv2d(other, f, strides), large, f)

    def reference(large, other):
        f = tf.zeros([3, 2, other.shape[-1], large.shape[-1]], large.dtype)
        return _tf_gradient(lambda f: tf.nn.conv2d(other, f, strides, "SAME"), large, f)

    return fn, reference


def _to(x, *names):
    return mtf.reduce_sum(x, output_shape=mtf.Shape([dim for dim in x.shape.dims if dim.name in names]))


def _einsum(names):
    def fn(large, other):
        dims = dict.fromkeys([*large.shape.dims, *other.shape.dims])
        return mtf.einsum([large, other], mtf.Shape([dim for dim in dims if dim.name in names]))

    return fn


def _bias_gradient(large, other):
    return _gradient(ops.add_bias(large, other), large, other)


IMAGE = f"b:1,s:{SIZE},y:6,c:1"
CHANNELS = f"b:2,x:4,y:3,s:{SIZE}"
SUMS = {
    "reduce_sum": Sum(lambda large, other: _to(large, "c"), lambda x, _: tf.reduce_sum(x, [0, 1, 2]), IMAGE),
    "reduce_mean": Sum(
        lambda large, other: mtf.reduce_mean(large, output_shape=mtf.Shape(large.shape.dims[-1:])),
        lambda x, _: tf.reduce_mean(x, [0, 1, 2]),
        IMAGE,
        roundings=3,  # the sum, 1 / 78, and their product
    ),
    "bias": Sum(_bias_gradient, lambda x, _: tf.reduce_sum(x, [0, 1, 2]), IMAGE, "c:1"),
    "filter": Sum(*_filter_gradient(1), IMAGE, f"b:1,s:{SIZE},y:6,i:1"),
    "filter of more outputs": Sum(*_filter_gradient(1), f"b:1,s:{SIZE},y:6,c:2", f"b:1,s:{SIZE},y:6,i:1"),
    "filter with strides": Sum(*_filter_gradient([2, 1]), IMAGE, f"b:1,s:{2 * SIZE},y:6,i:1"),
    "conv": Sum(
        lambda large, other: ops.conv2d(large, other),
        lambda x, f: tf.nn.conv2d(x, f, 1, "SAME"),
        CHANNELS,
        f"k0:3,k1:2,s:{SIZE},o:2",
    ),
    "conv_transpose": Sum(
        lambda large, other: ops.conv2d_transpose(large, other, 2),
        lambda x, f: tf.nn.conv2d_transpose(x, f, [2, 8, 6, 2], 2, "SAME"),
        CHANNELS,
        f"k0:3,k1:2,o:2,s:{SIZE}",
        mesh=",n:2",
        layout=",x:n",  # partial sums have halos
    ),
    "einsum": Sum(_einsum(["a", "o"]), lambda x, w: tf.einsum("as,so->ao", x, w), f"a:3,s:{SIZE}", f"s:{SIZE},o:2"),
    "einsum of one": Sum(_einsum(["a"]), lambda x, w: tf.einsum("as,s->a", x, w), f"a:3,s:{SIZE}", f"s:{SIZE}"),
    "sum of sums": Sum(
        lambda large, other: _to(large, "o") + _einsum(["o"])(large, other),
        lambda x, w: tf.einsum("aso,s->o", x, 1 + w),
        f"a:8,s:{SIZE},o:2",
        f"s:{SIZE}",
        roundings=3,
    ),
}


def _values(spec, dtype, is_large):
    """Returns numbers of a dtype: around 1, or large numbers that cancel along dimension `s` up to numbers around 1."""
    dims = mi.layout.parse_shape(spec)
    x = np.random.default_rng(is_large).uniform(0.5, 1.5, [n for _, n in dims])
    if is_large:
        lengths = [-1 if name == "s" else 1 for name, _ in dims]
        x += 8 * np.arange(-(SIZE // 2), SIZE // 2 + 1).reshape(lengths)
    return np.asarray(tf.cast(x, dtype), np.float64)


def check(name, dtype, processors, mesh_impl):
    """Compares a sum over split dimensions with float64, and its exchanges with those that the planner models."""
    row = SUMS[name]
    values = {"large": _values(row.large, dtype, True), "other": _values(row.other, dtype, False)}
    specs = {"large": (row.large, dtype), "other": (row.other, dtype)}
    mesh, layout = (f"m:{processors}{row.mesh}", f"s:m{row.layout}") if processors > 1 else ("", "")
    program = mi.Program(row.fn, specs, mesh, layout, mesh_impl)
    result = program(**values)
    assert result.dtype == dtype
    exact = np.asarray(row.reference(*(tf.constant(x, tf.float64) for x in values.values())))
    magnitudes = np.asarray(row.reference(*(tf.constant(np.abs(x), tf.float64) for x in values.values())))
    error, allowed = np.abs(np.asarray(result, np.float64) - exact), row.roundings * ROUNDING[dtype] * np.abs(exact)
    assert (error <= allowed + 2e-6 * np.abs(magnitudes)).all(), (error, allowed, exact)
    check_exchanges(program, row.fn, specs)
