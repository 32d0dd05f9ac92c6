"""Matrix products."""

import tensorflow as tf

from mtf_imaging.networks.onnx.registry import OPERATORS, Call, Value, operator

OPERATORS["Einsum"] = lambda call, *inputs: tf.einsum(call.get("equation"), *inputs)


@operator("MatMul")
def _matmul(call: Call, a: Value, b: Value) -> tf.Tensor:
    left = a if len(a.shape) > 1 else tf.expand_dims(a, 0)
    right = b if len(b.shape) > 1 else tf.expand_dims(b, 1)
    y = tf.matmul(left, right)
    y = y if len(a.shape) > 1 else tf.squeeze(y, [-2])
    return y if len(b.shape) > 1 else tf.squeeze(y, [-1])


@operator("Gemm")
def _gemm(call: Call, a: Value, b: Value, c: Value | None = None) -> tf.Tensor:
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    y = tf.matmul(a, b, bool(call.get("transA", 0)), bool(call.get("transB", 0)))
    y = y if alpha == 1 else y * alpha
    return y if c is None else y + (c if beta == 1 else c * beta)
