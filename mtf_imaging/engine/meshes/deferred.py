"""Sums over processes that are deferred until the first of them is read.

The gradients of all weights are summed over processes, and only the update reads them. A few messages therefore carry
all of them. A message holds gradients that the backward pass computes one after another. It is sent as soon as these
gradients are complete, while the backward pass continues.
"""

import itertools
import math
from collections.abc import Collection, Sequence

import tensorflow as tf

from mtf_imaging.engine.meshes.laid_out import LaidOutTensor
from mtf_imaging.engine.meshes.transport import Transport

_BUCKETS = 5  # messages for all gradients


class DeferredSum(LaidOutTensor):
    """A laid-out tensor whose sum over processes is created when its stacks are first read.

    Args:
      sums: the `DeferredSums` that this sum belongs to.
      partial: the stack of this process, already summed over its own processors.
      axes: mesh dimensions over which to sum.
    """

    def __init__(self, sums: "DeferredSums", partial: tf.Tensor, axes: Collection[int]) -> None:
        self.total: tf.Tensor | None = None
        self.partial, self.axes = partial, tuple(sorted(set(axes)))
        self._sums = sums
        super().__init__([])

    @property
    def tensor_list(self) -> list[tf.Tensor]:
        """The stacks of the sum."""
        if self.total is None:
            self._sums.compute()
        assert self.total is not None
        return [self.total]

    @tensor_list.setter
    def tensor_list(self, stacks: list[tf.Tensor]) -> None:
        assert not stacks, "the stacks of a deferred sum are computed"

    @property
    def stack_size(self) -> int:
        return self.partial.shape[0]

    @property
    def slice_shape(self) -> list[int]:
        return self.partial.shape.as_list()[1:]

    @property
    def dtype(self) -> tf.DType:
        return self.partial.dtype


class DeferredSums:
    """The deferred sums of a program.

    Args:
      transport: the `Transport` between processes.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: list[DeferredSum] = []

    def add(self, stacks: Sequence[tf.Tensor], axes: Collection[int]) -> DeferredSum:
        """Adds a sum.

        Args:
          stacks: the stack of this process, as a list.
          axes: mesh dimensions over which to sum.
        """
        in_turns = [axis for axis in axes if axis in self._transport.in_turns]
        if in_turns:  # a deferred sum over turns would store the gradients of every turn
            stacks = self._transport.reduce(stacks, in_turns, "SUM")
        (partial,) = stacks
        self._waiting.append(DeferredSum(self, partial, set(axes).difference(in_turns)))
        return self._waiting[-1]

    def compute(self) -> None:
        """Creates all sums that have been added since the last call, a few at a time."""
        waiting, self._waiting = sorted(self._waiting, key=self._kind), []  # stable, so in the order of `add`
        for _, alike in itertools.groupby(waiting, self._kind):
            for bucket in _buckets(list(alike)):
                self._sum(bucket)

    def _kind(self, x: DeferredSum) -> tuple:
        """Returns a key; sums with equal keys can share a message."""
        return x.dtype.name, x.axes, sorted(self._transport.axes_of(x.partial))

    def _sum(self, bucket: Sequence[DeferredSum]) -> None:
        """Creates the sums of one message."""
        axes = bucket[0].axes
        if len(bucket) == 1:
            (bucket[0].total,) = self._transport.reduce([bucket[0].partial], axes, "SUM", everywhere=False)
            return
        with tf.device(self._transport.devices[0]):
            flat = tf.concat([tf.reshape(x.partial, [-1]) for x in bucket], 0)
            (total,) = self._transport.reduce([flat], axes, "SUM", everywhere=False)
            parts = tf.split(total, [math.prod(x.partial.shape) for x in bucket])
            for x, part in zip(bucket, parts, strict=True):
                x.total = tf.reshape(part, x.partial.shape)


def _buckets(sums: Sequence[DeferredSum]) -> list[list[DeferredSum]]:
    """Divides sums into consecutive groups of about the same number of bytes."""
    total = sum(math.prod(x.partial.shape) for x in sums)
    buckets: list[list[DeferredSum]] = []
    size, last = 0, -1
    for x in sums:
        number = size * _BUCKETS // total  # the fifth of all elements in which the sum begins
        if number > last:
            buckets.append([])
        buckets[-1].append(x)
        size, last = size + math.prod(x.partial.shape), number
    return buckets
