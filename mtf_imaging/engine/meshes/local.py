"""Computes on one device's shard.

A shard is a stack `[n] + slice_shape`, or `[1] + slice_shape` for a value that is stored once. `local` is the number of
processors of the shard along each mesh dimension, and the stack is in row-major order of these processors. The grid
view of a stack has the shape `local + slice_shape`, or `[1, 1, ...] + slice_shape` for a value that is stored once.
"""

import contextlib
import itertools
import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

MOST_AXES = 8  # that TensorFlow slices, pads and repeats in one operation; more are merged, or handled one by one
# Functions that may be called on a whole stack instead of slice by slice, if all arguments have the same rank.
_NAMES = (
    *(
        "abs",
        "add",
        "cast",
        "cos",
        "divide",
        "equal",
        "exp",
        "floordiv",
        "greater",
        "greater_equal",
        "identity",
        "less",
    ),
    *("less_equal", "log", "logical_and", "logical_not", "logical_or", "maximum", "minimum", "mod", "multiply"),
    *("negative", "not_equal", "ones_like", "pow", "reciprocal", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square"),
    *("subtract", "tanh", "to_float", "where", "zeros_like"),
)
_MODULES = (tf, tf.math, tf.compat.v1, tf.compat.v1.math)  # mesh_tensorflow uses the TensorFlow 1 versions
_ELEMENTWISE = {getattr(module, name) for module in _MODULES for name in _NAMES if hasattr(module, name)}
_ELEMENTWISE |= {tf.nn.relu, tf.nn.elu, tf.nn.selu, tf.nn.leaky_relu, tf.math.softplus}


def map_slices(
    fn: Callable[..., Any], args: Sequence[Any], stacked: Sequence[bool], keep_gradient: bool = False
) -> Any:
    """Calls `fn` on each slice of the stacks, which are the entries of `args` marked in `stacked`.

    All other entries are passed unchanged. If all stacks store their value once, so does the result. Elementwise
    functions are called on the whole stack. All other functions are vectorized over the stack; if TensorFlow cannot
    vectorize a function, it is called once per slice. If `keep_gradient`, this includes functions that define their own
    gradient, because TensorFlow vectorizes without it.
    """
    ranks = {len(arg.shape) for arg, is_stack in zip(args, stacked) if is_stack}
    if fn in _ELEMENTWISE and len(ranks) == 1:
        return elementwise(fn, *args) if all(stacked) else fn(*args)
    many = [i for i, (arg, is_stack) in enumerate(zip(args, stacked)) if is_stack and arg.shape[0] > 1]
    slices = list(args)
    for i, is_stack in enumerate(stacked):
        if is_stack and i not in many:
            # `first_slice` may bypass a stack, and TensorFlow then finds no path from a result to this stack.
            slices[i] = tf.squeeze(args[i], [0]) if keep_gradient else first_slice(args[i])
    if not many:
        return tf.nest.map_structure(lambda y: tf.expand_dims(y, 0), fn(*slices))

    def call(one_slice_each: Sequence[tf.Tensor]) -> Any:
        for i, value in zip(many, one_slice_each):
            slices[i] = value
        result = fn(*slices)
        return tuple(result) if isinstance(result, list) else result

    stacks = tuple(args[i] for i in many)
    if not (keep_gradient and _defines_gradient(call, stacks)):
        # Some operations cannot be vectorized, such as a convolution with a different filter per slice.
        with contextlib.suppress(ValueError), _silence():
            return tf.vectorized_map(call, stacks, fallback_to_while_loop=False)
    results = [call(one_slice_each) for one_slice_each in zip(*map(tf.unstack, stacks))]
    return tf.nest.map_structure(lambda *slices: tf.stack(slices), *results)


def _defines_gradient(fn: Callable[..., Any], stacks: Sequence[tf.Tensor]) -> bool:
    """Returns whether a function of slices defines its own gradient, for instance by `tf.custom_gradient`."""
    specs = [tf.TensorSpec(stack.shape[1:], stack.dtype) for stack in stacks]
    graph = tf.function(fn, autograph=False).get_concrete_function(specs).graph.as_graph_def()
    nodes = itertools.chain(graph.node, *(function.node_def for function in graph.library.function))
    # TensorFlow marks function calls, too; the nodes of these functions are in the function library.
    return any("_gradient_op_type" in node.attr for node in nodes if not node.op.endswith("PartitionedCall"))


def first_slice(stack: tf.Tensor) -> tf.Tensor:
    """Returns the first slice of a stack, which represents all if they are equal."""
    if stack.shape[0] > 1:
        return stack[0]
    if not tf.executing_eagerly() and stack.op.type == "ExpandDims" and stack.op.inputs[0].shape == stack.shape[1:]:
        return stack.op.inputs[0]  # saves a node
    return tf.squeeze(stack, [0])


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppresses the long warnings that TensorFlow logs when it cannot vectorize a function."""
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def partial_dtype(dtype: tf.DType) -> tf.DType:
    """Returns the dtype of partial sums, whose sum over processors is rounded to `dtype`.

    Rounded to 16 bits, partial sums that cancel would lose most digits of their sum.
    """
    return tf.float32 if dtype.is_floating and dtype.size < 4 else dtype


def as_partial(fn: Callable[..., Any], is_partial: bool) -> Callable[..., Any]:
    """Returns `fn`, a function of tensors, or if its results are partial sums, `fn` in the `partial_dtype`."""
    return (lambda *xs: fn(*[tf.cast(x, partial_dtype(x.dtype)) for x in xs])) if is_partial else fn


def constant(value: float, dtype: tf.DType) -> tf.Tensor:
    """Returns a scalar constant of any dtype."""
    return tf.constant(dtype.as_numpy_dtype(value), dtype)


def to_grid(stack: tf.Tensor, local: Sequence[int]) -> tf.Tensor:
    """Reshapes a stack to its grid view."""
    sizes = local if stack.shape[0] > 1 else [1] * len(local)
    return tf.reshape(stack, [*sizes, *stack.shape[1:]])


def from_grid(view: tf.Tensor, local: Sequence[int]) -> tf.Tensor:
    """Reshapes a grid view to its stack; repeats a view that has size 1 along some but not all mesh dimensions."""
    sizes, slice_shape = view.shape[: len(local)], view.shape[len(local) :]
    if all(size == 1 for size in sizes):
        return tf.reshape(view, [1, *slice_shape])
    if list(sizes) != list(local):
        view = tf.broadcast_to(view, [*local, *slice_shape])
    return tf.reshape(view, [math.prod(local), *slice_shape])


def reshape(x: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
    """Reshapes `x`, or returns the tensor that it was reshaped from if that tensor has the shape.

    In the second case, two operations are neighbors in TensorFlow's graph, so its optimizer may fuse them.
    """
    source: tf.Tensor | None = x
    while source is not None and source.shape != shape:
        source = _reshaped_from(source)
    return tf.reshape(x, shape) if source is None else source


def _reshaped_from(x: tf.Tensor) -> tf.Tensor | None:
    """Returns the tensor that `x` is a reshape of, or None."""
    return x.op.inputs[0] if not tf.executing_eagerly() and x.op.type == "Reshape" else None


def elementwise(fn: Callable[..., Any], *stacks: tf.Tensor, by_channel: bool = False) -> Any:
    """Calls an elementwise function on stacks, or on the tensors that they were reshaped from, if these fit.

    In the second case, TensorFlow may fuse the function with the operation that computed a tensor; see `reshape`.

    Args:
      fn: a function from tensors of equal shapes to a tensor of this shape.
      *stacks: the stacks.
      by_channel: whether the function depends on the index along the last dimension.
    """
    sources = [_reshaped_from(stack) for stack in stacks]
    shapes = {tuple(x.shape) for x in sources if x is not None}
    fits = None not in sources and len(shapes) == 1 and len({tuple(stack.shape) for stack in stacks}) == 1
    if not fits or (by_channel and shapes.pop()[-1] != stacks[0].shape[-1]):
        return fn(*stacks)
    return tf.nest.map_structure(lambda y: reshape(y, stacks[0].shape), fn(*sources))


def _flatten_batch(stack: tf.Tensor, batch_ndims: int) -> tf.Tensor:
    """Reshapes `[n] + batch + rest` to `[n x batch] + rest`."""
    return reshape(stack, [math.prod(stack.shape[: 1 + batch_ndims]), *stack.shape[1 + batch_ndims :]])


def take_at(view: tf.Tensor, axes: Sequence[int], coordinates: Sequence[int], local: Sequence[int]) -> tf.Tensor:
    """Selects `coordinates` of a grid view along the mesh dimensions `axes`, which keep size 1."""
    for axis, c in zip(axes, coordinates):
        if view.shape[axis] > 1:
            view = tf.gather(view, [c], axis=axis)  # tf.slice supports at most 8 dimensions
    return view


def _coordinates(axes: Sequence[int], local: Sequence[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(local[axis]) for axis in axes)))


def fold_call(
    fn: Callable[..., Any],
    batched: Sequence[tf.Tensor],
    shared: Sequence[tf.Tensor],
    local: Sequence[int],
    shared_axes: Collection[int],
    batch_ndims: int,
) -> Any:
    """Implements `ShardMeshImpl.window` for one shard; the tensor arguments are its stacks."""
    axes = [axis for axis in sorted(shared_axes) if local[axis] > 1]
    if not axes:
        weights = [first_slice(s) for s in shared]
        results = fn(*[_flatten_batch(x, batch_ndims) for x in batched], *weights)
        lead = batched[0].shape[: 1 + batch_ndims]
        return tf.nest.map_structure(lambda y: reshape(y, [*lead, *y.shape[1:]]), results)

    batched_views = [to_grid(x, local) for x in batched]
    shared_views = [to_grid(s, local) for s in shared]
    ndims = len(local)

    def call(at: Sequence[int]) -> Any:
        inputs = [take_at(view, axes, at, local) for view in batched_views]
        lead = inputs[0].shape[: ndims + batch_ndims]
        flat = [tf.reshape(x, [-1, *x.shape[ndims + batch_ndims :]]) for x in inputs]
        # Along the other mesh dimensions the weights are equal, so coordinate 0 represents all.
        everywhere = [at[axes.index(axis)] if axis in axes else 0 for axis in range(ndims)]
        weights = [take_at(view, range(ndims), everywhere, local) for view in shared_views]
        weights = [tf.reshape(w, w.shape[ndims:]) for w in weights]
        return tf.nest.map_structure(lambda y: tf.reshape(y, [*lead, *y.shape[1:]]), fn(*flat, *weights))

    parts = [call(at) for at in _coordinates(axes, local)]
    return tf.nest.map_structure(lambda *ys: _stack_coordinates(ys, axes, local), *parts)


def _stack_coordinates(parts: Sequence[tf.Tensor], axes: Sequence[int], local: Sequence[int]) -> tf.Tensor:
    """Joins grid views, one for each coordinate of `axes` in order, into one stack."""
    rest = list(parts[0].shape)
    for axis in axes:
        rest[axis] = local[axis]
    if len(axes) == 1:
        return from_grid(tf.concat(parts, axes[0]), local)
    # [coordinates of axes] + grid + slice -> grid + slice, with each coordinate moved to its mesh dimension.
    view = tf.reshape(tf.stack(parts), [*(local[a] for a in axes), *parts[0].shape])
    order = []
    for dim in range(len(parts[0].shape)):
        order += [axes.index(dim)] if dim in axes else []
        order.append(len(axes) + dim)
    return from_grid(tf.reshape(tf.transpose(view, order), rest), local)


class Piece(NamedTuple):
    """A group of slices in a shard, and the extent of their true elements.

    Attributes:
      places: {mesh axis: positions within the shard}; all positions along other axes.
      sizes: for each tensor {dimension of a slice: number of elements, from the first}.
    """

    places: Mapping[int, Sequence[int]]
    sizes: Sequence[Mapping[int, int]]


def fold_sum_of_pieces(
    fn: Callable[..., Any],
    batched: Sequence[tf.Tensor],
    pieces: Sequence[Piece],
    local: Sequence[int],
    summed_axes: Collection[int],
    varying_axes: Collection[int],
    batch_ndims: int,
) -> tf.Tensor:
    """Implements `ShardMeshImpl.window_sum` for one shard whose slices have tails; the function gets no tails."""
    parts = []
    for places, sizes in pieces:
        inputs = [_cut(_take_places(x, places, local), own) for x, own in zip(batched, sizes, strict=True)]
        rest = [len(places.get(axis, range(size))) for axis, size in enumerate(local)]
        parts.append(fold_sum(fn, inputs, rest, summed_axes, varying_axes, batch_ndims, local))
    if parts:
        return tf.add_n(parts)
    return tf.zeros_like(fold_sum(fn, batched, local, summed_axes, varying_axes, batch_ndims))


def _take_places(stack: tf.Tensor, places: Mapping[int, Sequence[int]], local: Sequence[int]) -> tf.Tensor:
    """Returns the stack of the processors at some positions along mesh dimensions."""
    if stack.shape[0] == 1:
        return stack
    view = to_grid(stack, local)
    for axis, own in places.items():
        if len(own) < local[axis]:
            view = tf.gather(view, own, axis=axis)
    return tf.reshape(view, [-1, *stack.shape[1:]])


def _cut(stack: tf.Tensor, sizes: Mapping[int, int]) -> tf.Tensor:
    """Returns the first elements of each slice along some of its dimensions."""
    kept = stack.shape.as_list()
    for dim, size in sizes.items():
        kept[dim + 1] = size
    return stack if stack.shape == kept else tf.slice(stack, [0] * len(kept), kept)


def fold_sum(
    fn: Callable[..., Any],
    batched: Sequence[tf.Tensor],
    local: Sequence[int],
    summed_axes: Collection[int],
    varying_axes: Collection[int],
    batch_ndims: int,
    whole_local: Sequence[int] | None = None,
) -> tf.Tensor:
    """Implements `ShardMeshImpl.window_sum` for one shard, without the sum over shards.

    If the stacks cover only some processors of the shard, `whole_local` is the number of all its processors along each
    mesh dimension.
    """
    axes = [axis for axis in sorted(varying_axes) if local[axis] > 1]
    # Slices are equal along a mesh dimension that splits nothing, so the first slice represents all.
    equal = [axis for axis in range(len(local)) if axis not in axes and axis not in summed_axes and local[axis] > 1]
    if not axes and not equal:
        return tf.expand_dims(fn(*[_flatten_batch(x, batch_ndims) for x in batched]), 0)
    views = [take_at(to_grid(x, local), equal, [0] * len(equal), local) for x in batched]
    parts = []
    for at in _coordinates(axes, local):
        inputs = [take_at(view, axes, at, local) for view in views]
        y = fn(*[tf.reshape(x, [-1, *x.shape[len(local) + batch_ndims :]]) for x in inputs])
        parts.append(tf.reshape(y, [1] * len(local) + list(y.shape)))
    whole_local = whole_local or local
    return _stack_coordinates(parts, axes, whole_local) if axes else from_grid(parts[0], whole_local)


def from_grid_full(view: tf.Tensor, local: Sequence[int]) -> tf.Tensor:
    """Reshapes a grid view to a stack with one slice per processor, even if all slices are equal."""
    slice_shape = view.shape[len(local) :]
    # The broadcast is needed even if it repeats nothing: without it, TensorFlow's graph optimizer (2.21) handles
    # dimensions of size 1 incorrectly in an all-to-all after a cut.
    return tf.reshape(tf.broadcast_to(view, [*local, *slice_shape]), [math.prod(local), *slice_shape])


def extended(x: tf.Tensor, dim: int, size: int) -> tf.Tensor:
    """Extends a dimension to a size.

    The last element is repeated: it is a legal value of the tensor, such as a class label or a divisor.
    """
    return x if x.shape[dim] == size else tf.gather(x, np.minimum(np.arange(size), x.shape[dim] - 1), axis=dim)
