"""Slices before elementwise operations instead of after them.

A turn stores the result of a convolution, and its neighbor needs a strip of the activation. The neighbor reads the
strip of the stored result and computes the activation of the strip.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence

import tensorflow as tf

from mtf_imaging.engine.meshes.local import constant
from mtf_imaging.engine.meshes.turns import Received, Turns
from mtf_imaging.engine.turns.kernels import ELEMENTWISE

_RESHAPES = frozenset(("ExpandDims", "Reshape", "Squeeze"))
_MOST_DIMS = 8  # of the tensors that TensorFlow's kernel of `Slice` takes


Leaf = Callable[[tf.Tensor, Sequence[int], Sequence[int]], tf.Tensor]


def slice_early(turns: Turns, stored: Collection) -> None:
    """Lets turns receive slices of stored tensors instead of slices of what is computed from them.

    Args:
      turns: the turns, whose marks and computed values this function changes.
      stored: references of the stored tensors.
    """
    with turns.graph.as_default():
        at_sender = _Slicer(stored, tf.slice, lambda operand: None)
        for name, mark in list(turns.marks.items()):
            if not isinstance(mark, Received) or (place := _place(mark.source.op)) is None:
                continue
            try:
                value = _at_receiver(turns, stored, mark.turns).slice(*place)
            except _NotStoredError:
                turns.marks[name] = dataclasses.replace(mark, source=at_sender.slice(*place))
                continue
            exists = [turn is not None for turn in mark.turns]
            if not all(exists):
                value = tf.where(turns.table(exists), value, constant(mark.fill, value.dtype))
            del turns.marks[name]
            turns.computed[name] = value
    for name, mark in turns.marks.items():
        if mark.source.op.name in turns.computed:
            turns.marks[name] = dataclasses.replace(mark, source=turns.computed[mark.source.op.name])


def _place(cut_out: tf.Operation) -> tuple[tf.Tensor, int, int, int] | None:
    """Returns the input, dimension, begin and size of a constant `Slice` of one dimension; None for all others."""
    if cut_out.type != "Slice":
        return None
    x, begin, _ = cut_out.inputs
    first, size = tf.get_static_value(begin), cut_out.outputs[0].shape
    dims = [d for d, n in enumerate(x.shape) if n != size[d]] or [0]
    return None if first is None or len(dims) > 1 else (x, dims[0], int(first[dims[0]]), size[dims[0]])


class _NotStoredError(Exception):
    """A slice needs a tensor of another turn that is not stored."""


def _at_receiver(turns: Turns, stored: Collection, sources: Sequence[int | None]) -> "_Slicer":
    """Returns what computes slices of other turns: for each turn, of the turn in `sources`, or of any if it is None."""
    known = [turn if source is None else source for turn, source in enumerate(sources)]

    def leaf(x: tf.Tensor, begin: Sequence[int], size: Sequence[int]) -> tf.Tensor:
        if not turns.axes_of(x):
            return tf.slice(x, begin, size)
        if x.ref() not in stored:
            raise _NotStoredError
        return turns.mark(Received(x, tuple(known), 0, (tuple(begin), tuple(size))), size, turns.axes_of(x))

    def check_operand(x: tf.Tensor) -> None:
        if turns.axes_of(x):
            raise _NotStoredError

    return _Slicer(stored, leaf, check_operand)


class _Slicer:
    """Computes slices of results of elementwise operations from slices of stored tensors.

    Args:
      stored: references of the stored tensors.
      leaf: returns a slice of a tensor.
      check_operand: is called for an operand that is used as a whole.
    """

    def __init__(self, stored: Collection, leaf: Leaf, check_operand: Callable[[tf.Tensor], None]) -> None:
        self._stored, self._leaf, self._check_operand = stored, leaf, check_operand
        self._done: dict = {}

    def slice(self, x: tf.Tensor, dim: int, begin: int, size: int) -> tf.Tensor:
        """Returns `size` elements of a tensor along a dimension, from `begin` on."""
        key = (x.ref(), dim, begin, size)
        if key not in self._done:
            sliced = [size if d == dim else n for d, n in enumerate(x.shape)]
            y = None if x.ref() in self._stored else self._from_slices(x, sliced, dim, begin, size)
            begins = [begin if d == dim else 0 for d in range(len(sliced))]
            self._done[key] = self._leaf(x, begins, sliced) if y is None else y
        return self._done[key]

    def _from_slices(self, x: tf.Tensor, sliced: Sequence[int], dim: int, begin: int, size: int) -> tf.Tensor | None:
        """Returns a slice of a tensor from slices of what it is computed from; None if it needs more than these."""
        op, shape = x.op, x.shape.as_list()
        if op.type in _RESHAPES:
            place = _before_reshape(op.inputs[0].shape.as_list(), shape, dim, begin, size)
            return None if place is None else tf.reshape(self.slice(op.inputs[0], *place), sliced)
        if op.type == "ConcatV2":
            axis = tf.get_static_value(op.inputs[-1])  # a vectorized map computes it
            along = axis is None or axis % len(shape) == dim
            return None if along else tf.concat([self.slice(part, dim, begin, size) for part in op.inputs[:-1]], axis)
        if op.type in ELEMENTWISE or (op.type == "FusedBatchNormV3" and not op.get_attr("is_training")):
            inputs = [self._operand(part, len(shape) - dim, shape[dim], begin, size) for part in op.inputs]
            dtypes, attrs = [y.dtype for y in op.outputs], dict(op.node_def.attr)
            return x.graph.create_op(op.type, inputs, dtypes, attrs=attrs).outputs[x.value_index]
        return None

    def _operand(self, x: tf.Tensor, from_end: int, n: int, begin: int, size: int) -> tf.Tensor:
        """Returns the slice of an operand, or the operand itself if it is broadcast along the dimension."""
        dim = len(x.shape) - from_end
        if dim >= 0 and x.shape[dim] == n:
            return self.slice(x, dim, begin, size)
        self._check_operand(x)
        return x


def _before_reshape(
    source: Sequence[int], target: Sequence[int], dim: int, begin: int, size: int
) -> tuple[int, int, int] | None:
    """Returns the dimension, begin and size of a slice before a reshape; None if it is no slice of one dimension.

    Args:
      source: the shape before.
      target: the shape after.
      dim: the dimension of the slice after.
      begin: its first element.
      size: its number of elements.
    """
    if 0 in source or len(source) > _MOST_DIMS:
        return None
    for d, n in enumerate(source):
        if math.prod(source[:d]) != math.prod(target[:dim]):
            continue
        if n % target[dim] == 0:
            times = n // target[dim]
            return d, begin * times, size * times
        if n > 1 and target[dim] % n == 0:
            times = target[dim] // n
            if begin % times == size % times == 0:
                return d, begin // times, size // times
    return None
