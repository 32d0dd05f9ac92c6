"""Replaces incorrect methods and mesh_tensorflow functions 0.1.21 that run while the graph is built.

Most of them compute gradients: `mtf.gradients` calls the `gradient` method of every operation on its path.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from mtf_imaging.engine import compat, ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.activation import LeakyReluGrad
from mtf_imaging.engine.ops.recompute import recompute
from mtf_imaging.engine.ops.weighing import weigh
from mtf_imaging.engine.upstream.faults import own_pool, title
from mtf_imaging.errors import NotSupportedError

_operation_init = mtf.Operation.__init__
_while_loop = mtf.while_loop
_cross_entropy = mtf.layers.softmax_cross_entropy_with_logits
_slicewise_init = mtf.SlicewiseOperation.__init__
_clone = mtf.Graph.clone_operations
# {function: (function of TensorFlow, its slope for x and its result y)}
_STEEP = {
    mtf.log: (tf.math.log, lambda x, y: mtf.reciprocal(x)),
    mtf.reciprocal: (tf.math.reciprocal, lambda x, y: mtf.negative(mtf.square(y))),
    mtf.rsqrt: (tf.math.rsqrt, lambda x, y: -0.5 * y * y * y),
    mtf.sqrt: (tf.math.sqrt, lambda x, y: 0.5 * mtf.reciprocal(y)),
}
# {function: parameters that take lists}
_LISTS = {
    mtf.custom_gradient: ["explicit_inputs"],
    mtf.slicewise: ["output_shape", "output_dtype"],
    mtf.split: ["num_or_size_splits"],
    mtf.Print: ["data"],
    mtf.replace_dimensions: ["old_dim_or_dims", "new_dim_or_dims"],
    mtf.layers.dense: ["new_dims", "reduced_dims"],
}


def _with_lists(function: Callable[..., Any], parameters: Sequence[str]) -> Callable[..., Any]:
    """Returns the function with tuples accepted for parameters that mesh_tensorflow handles only as lists."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Any:
        bound = signature.bind(*args, **kwargs)
        for name in parameters:
            if type(bound.arguments.get(name)) is tuple:  # a dimension is a named tuple
                bound.arguments[name] = list(bound.arguments[name])
        return function(*bound.args, **bound.kwargs)

    return call


def _loop(
    cond_fn: Callable[..., mtf.Tensor],
    body_fn: Callable[..., Sequence[mtf.Tensor]],
    inputs: Sequence[mtf.Tensor],
    num_loop_vars: int | None = None,
    **options: object,
) -> list[mtf.Tensor]:
    """Keeps the whole state of a loop in the loop.

    mesh_tensorflow keeps only `num_loop_vars` tensors there, and the others in variables that the body assigns.
    """
    return _while_loop(cond_fn, body_fn, list(inputs), **options)[:num_loop_vars]


def _with_a_list(op: mtf.Operation, inputs: Sequence[mtf.Tensor], *options: object, **names: object) -> None:
    """Accepts a tuple of inputs; mesh_tensorflow concatenates them with lists."""
    _operation_init(op, list(inputs), *options, **names)


def _clone_without_assignments(
    graph: mtf.Graph, operations: Sequence[mtf.Operation], input_mapping: dict[mtf.Tensor, mtf.Tensor]
) -> tuple[list[mtf.Operation], dict[mtf.Tensor, mtf.Tensor]]:
    """Does not repeat assignments when `mtf.recompute_grad` and reversible layers repeat their forward pass."""
    return _clone(graph, [op for op in operations if not isinstance(op, mtf.Assign)], input_mapping)


def _with_defaults(
    op: mtf.Operation,
    tf_fn: Callable[..., Any],
    inputs: Sequence[mtf.Tensor],
    output_shapes: Sequence[mtf.Shape],
    output_dtypes: Sequence[tf.DType],
    splittable_dims: Sequence[mtf.Dimension] | None,
    *options: object,
    **names: object,
) -> None:
    """Accepts `splittable_dims=None`, the default of `mtf.slicewise`, which mesh_tensorflow cannot handle."""
    _slicewise_init(op, tf_fn, inputs, output_shapes, output_dtypes, splittable_dims or [], *options, **names)


def _min_max(op: mtf.Operation, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
    """Gives the gradient to the first of two equal inputs, like TensorFlow, and sums it over broadcast dimensions."""
    (dy,), (y,), (a, b) = grad_ys, op.outputs, op.inputs
    is_first = mtf.equal(a, y, output_shape=y.shape)
    return [
        mtf.reduce_sum(mtf.where(is_first, *branches), output_shape=x.shape)
        for x, branches in [(a, (dy, 0)), (b, (0, dy))]
    ]


def _reduction(op: mtf.Operation, grad_ys: Sequence[mtf.Tensor]) -> list[mtf.Tensor | None]:
    """Divides the gradient of a maximum or minimum by the number of equal elements, like TensorFlow."""
    (x,), (y,), (dy,) = op.inputs, op.outputs, grad_ys
    if compat.reduction_kind(op) == "SUM":
        return [mtf.broadcast(dy, x.shape)]
    chosen = mtf.cast(mtf.equal(x, y), dy.dtype)
    return [chosen * (dy / mtf.reduce_sum(chosen, output_shape=y.shape))]


def _fill_missing(op: mtf.Operation, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor]:
    """Replaces the missing gradients of unused outputs with zeros."""
    return [mtf.zeros_like(y) if dy is None else dy for y, dy in zip(op.outputs, grad_ys, strict=True)]


def _unstack(op: mtf.Operation, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
    dim, axis = compat.unstacked_dimension(op)
    return [mtf.stack(_fill_missing(op, grad_ys), dim.name, axis)]


def _generic(op: mtf.Operation, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
    gradients = mtf.GenericGradOperation(op, _fill_missing(op, grad_ys)).outputs
    return [dx if x.dtype.is_floating else None for x, dx in zip(op.inputs, gradients, strict=True)]


def _slicewise(op: mtf.Operation, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
    gradient = compat.gradient_function(op)
    return _generic(op, grad_ys) if gradient is None else gradient(op, *grad_ys)


def _steep(
    name: str, tf_fn: Callable[[tf.Tensor], tf.Tensor], slope: Callable[[mtf.Tensor, mtf.Tensor], mtf.Tensor]
) -> Callable[..., mtf.Tensor]:
    """Returns a function of one tensor that passes no gradient where none arrives, even if its slope is infinite.

    In TensorFlow, `where(x > 0, log(x), 0)` has the gradient 0 * inf = NaN at 0, which ends a training.
    """

    def gradient(op: mtf.Operation, dy: mtf.Tensor) -> list[mtf.Tensor]:
        return [weigh(slope(op.inputs[0], op.outputs[0]), dy)]

    def function(x: mtf.Tensor, name: str = name) -> mtf.Tensor:
        return mtf.cwise(tf_fn, [x], name=name, grad_function=gradient)

    return function


def _leaky_relu(x: mtf.Tensor, alpha: float = 0.2, name: str = "leaky_relu") -> mtf.Tensor:
    """Has TensorFlow's gradient, also of infinite numbers and NaN."""

    def gradient(op: mtf.Operation, dy: mtf.Tensor) -> list[mtf.Tensor]:
        return LeakyReluGrad(op.inputs[0], dy, alpha).outputs

    return mtf.cwise(functools.partial(tf.nn.leaky_relu, alpha=alpha), [x], name=name, grad_function=gradient)


def _recompute_grad(
    fn: Callable[..., Any], explicit_inputs: Sequence[mtf.Tensor], *options: object, **names: object
) -> Any:
    """Delays the recomputation without adding a product with the gradient to the inputs, which may be NaN."""
    del options, names
    return recompute(fn, *explicit_inputs)


def _softmax_cross_entropy(
    logits: mtf.Tensor, targets: mtf.Tensor, vocab_dim: mtf.Dimension, z_loss: float = 0.0
) -> mtf.Tensor:
    """Selects the logit of each integer target."""
    if not targets.dtype.is_integer or {*targets.shape.dims} != {*logits.shape.dims} - {vocab_dim}:
        return _cross_entropy(logits, targets, vocab_dim, z_loss)
    log_z = mtf.reduce_logsumexp(logits, vocab_dim)
    loss = log_z - mtf.gather(logits, targets, vocab_dim, log_z.shape)
    return loss + z_loss * mtf.square(log_z) if z_loss else loss


def _pool(op: mtf.Operation, grad_ys: Sequence[mtf.Tensor | None]) -> list[mtf.Tensor | None]:
    """Gives the gradient of a maximum to the first of equal voxels, like TensorFlow."""
    (x,), (dy,) = op.inputs, grad_ys
    ksize, strides, _ = compat.pool_window(op)
    for dim, size in zip(x.shape.dims[-1 - len(ksize) : -1], ksize):
        if dim.size % size:
            raise NotSupportedError(
                f"{title(op)}: its gradient needs windows that cover '{dim.name}' (size {dim.size}) evenly, but "
                f"windows of {size} leave a remainder of {dim.size % size}. "
                "Fix: use the pools of mi.ops, which accept any size."
            )
    return getattr(ops, own_pool(op))(x, ksize, strides).operation.gradient([dy])


def _missing(op: mtf.Operation, grad_ys: Sequence[mtf.Tensor | None]) -> NoReturn:
    del grad_ys
    raise NotSupportedError(
        f"{title(op)} has no gradient, so a loss cannot be differentiated through it. "
        "Fix: use another operation, or apply mtf.stop_gradient to its inputs."
    )


def apply() -> None:
    """Replaces mesh_tensorflow's methods and functions."""
    for function, parameters in _LISTS.items():
        compat.replace_function(function, _with_lists(function, parameters))
    for function, (tf_fn, slope) in _STEEP.items():
        compat.replace_function(function, _steep(function.__name__, tf_fn, slope))
    compat.replace_function(mtf.while_loop, _loop)
    mtf.Graph.clone_operations = _clone_without_assignments
    compat.replace_function(mtf.leaky_relu, _leaky_relu)
    compat.replace_function(mtf.recompute_grad, _recompute_grad)
    compat.replace_function(mtf.layers.softmax_cross_entropy_with_logits, _softmax_cross_entropy)
    mtf.Operation.__init__ = _with_a_list
    mtf.Operation.gradient = _missing
    mtf.BinaryOpWithBroadcasting.gradient = _missing
    mtf.MinMaxOperation.gradient = _min_max
    mtf.ReduceOperation.gradient = _reduction
    mtf.UnstackOperation.gradient = _unstack
    mtf.SlicewiseOperation.__init__ = _with_defaults
    mtf.SlicewiseOperation.gradient = _slicewise
    mtf.GenericGradOperation.gradient = _generic
    mtf.PoolOperation.gradient = _pool
