"""Sums, means, maxima and minima over axes. Every dimension may be split."""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.networks.array import Array
from mtf_imaging.networks.operations.registry import Call, operation
from mtf_imaging.networks.values import Unnamed, Value, as_array

_REDUCTIONS: dict[str, Callable[..., mtf.Tensor]] = {
    "Sum": mtf.reduce_sum,
    "Mean": mtf.reduce_mean,
    "Max": mtf.reduce_max,
    "Min": mtf.reduce_min,
    "All": mtf.reduce_all,
    "Any": mtf.reduce_any,
}


def _reduce(call: Call, x: Array | Unnamed, axes: Value) -> Array:
    array, rank = as_array(x), len(x.sizes)
    gone = {i % rank for i in call.ints(axes, "axes")}
    dims = {dim for i in gone for dim in array.axes[i]}
    tensor = array.tensor
    kept = mtf.Shape([dim for dim in tensor.shape.dims if dim not in dims])
    y = _REDUCTIONS[call.node.operation](tensor, output_shape=kept)
    repeats = math.prod(dim.size for dim in dims if dim not in tensor.shape.dims)
    if call.node.operation == "Sum" and repeats > 1:
        y *= repeats
    own = [() if i in gone else axis for i, axis in enumerate(array.axes)]
    return Array(y, own if call.get("keep_dims") else [axis for i, axis in enumerate(own) if i not in gone])


for _name, _function in _REDUCTIONS.items():
    operation(_name, ours=f"mtf.{_function.__name__}")(_reduce)


@operation("ArgMax", ours="mtf.argmax")
def _argmax(call: Call, x: Array | Unnamed, axis: Value) -> Any:
    at = call.ints(axis, "axes")[0] % len(x.sizes)
    array = as_array(x).single(at)
    y = mtf.argmax(array.tensor, array.axes[at][0])
    dtype = call.get("output_type", tf.int64)
    return Array(mtf.cast(y, dtype), [axis for i, axis in enumerate(array.axes) if i != at])
