"""Moves tensors between the shards of several processes, with TensorFlow's collective operations.

Every process lowers the same program, so all of them create the same collectives in the same order, and the n-th one
has the same instance key everywhere. Processes that do not take part in a collective skip it, but count it.

Two shards exchange their messages with one all-to-all in a group of two, which is the fastest exchange over gRPC: both
directions travel at once. No process waits for one with which it exchanges no messages.
"""

import contextlib
import math
from collections.abc import Callable, Collection, Sequence

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.meshes.local import reshape
from mtf_imaging.engine.meshes.transport.transport import Message, Transport

_MERGE = {"SUM": "Add", "MAX": "Max", "MIN": "Min"}
_BLOCK = 64  # keys computed by one operation
_MAX_KEY = 2**30
# The dtypes that TensorFlow's collectives support (2.21).
_SUMMED = (tf.bfloat16, tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)
_GATHERED = (tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)
_LARGE = (tf.uint32, tf.uint64)  # integers that int32 cannot represent


class Numbers:
    """Counters of collectives and groups, which are equal in all processes because all count in the same order."""

    def __init__(self) -> None:
        self._next_key = 1
        self._divisions: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}

    def reserve(self, count: int) -> int:
        """Returns the first of `count` unused instance keys."""
        first = self._next_key
        self._next_key += count
        assert self._next_key < _MAX_KEY
        return first

    def division(self, shards: tuple[int, ...], axes: Collection[int]) -> int:
        """Returns the number that identifies a division of all shards into groups.

        Args:
          shards: number of shards along each mesh dimension.
          axes: the mesh dimensions along which the shards of a group differ.
        """
        return self._divisions.setdefault((shards, tuple(sorted(axes))), len(self._divisions))


class Keys:
    """The instance keys for the collectives in a program.

    TensorFlow identifies the messages of a collective by its group and its key, and remembers their shape. Programs
    therefore have distinct keys. Calls to a program alternate between two sets of keys, because one process may
    start the next call while another one still works on this call.

    Args:
      numbers: the `Numbers` of this process.
    """

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers
        self._turn: tf.Tensor | None = None
        self._blocks: dict[object, list[tf.Tensor]] = {}

    def alternate(self, turn: tf.Tensor) -> None:
        """Sets the parity of the call, Tensor[] int32, for the collectives that are created afterwards."""
        self._turn, self._blocks = turn, {}

    def next(self) -> tf.Tensor:
        """Returns the next key, Tensor[] int32."""
        assert self._turn is not None, "the keys need the parity of the call; `Program` sets it before lowering"
        graph = tf.compat.v1.get_default_graph()  # the body of a loop has its own graph
        keys = self._blocks.setdefault(graph, [])
        if not keys:
            first = self._numbers.reserve(2 * _BLOCK)
            with tf.control_dependencies(None), tf.device("CPU:0"):
                keys += tf.unstack(tf.constant(np.arange(first, first + 2 * _BLOCK, 2), tf.int32) + self._turn)
        return keys.pop(0)


class BetweenProcesses(Transport):
    """Moves tensors between processes, each of which computes one shard on one device.

    Args:
      grid: the division of the mesh into shards, one for each process.
      number: the number of this process, which is also the number of its shard.
      device: the device of this process.
      numbers: the `Numbers` of this process.
      communication: "auto", "ring" or "nccl", how TensorFlow sums and gathers.
      watched: a function that returns a context for calls; see `Transport.watched`.

    Attributes:
      keys: the `Keys`.
    """

    def __init__(
        self,
        grid: ShardGrid,
        number: int,
        device: str,
        numbers: Numbers,
        communication: str = "auto",
        watched: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        super().__init__(grid, [number], [device])
        self.keys = Keys(numbers)
        self._numbers = numbers
        # A program must run all of its collectives, even if it does not read their results: other processes wait.
        self._started: list[tf.Operation] = []
        self._number, self._communication, self._watched = number, communication, watched
        self._is_gpu = "GPU" in device.upper()
        self._in_order = communication == "nccl" or (communication == "auto" and self._is_gpu)

    def begin(self, turn: tf.Tensor | None) -> None:
        if turn is not None:  # None if there is only one process
            self.keys.alternate(turn)
        self._started.clear()

    def end(self) -> list[tf.Operation]:
        graph = tf.compat.v1.get_default_graph()
        started, self._started = self._started, []
        return [op for op in started if op.graph is graph]

    def watched(self) -> contextlib.AbstractContextManager[None]:
        return self._watched()

    def reduce(
        self, values: Sequence[tf.Tensor], axes: Collection[int], reduction: str, everywhere: bool = True
    ) -> list[tf.Tensor]:
        (group,), (value,) = self.groups(axes), values
        if len(group) == 1:
            return list(values)
        options = {"merge_op": _MERGE[reduction], "final_op": "Id"}
        with tf.device(self.devices[0]):
            wire = _cast(value, _wire_dtype(value.dtype))
            total = self._collective(tf.raw_ops.CollectiveReduceV2, wire, self.axes_key(group, axes), group, **options)
            total.set_shape(value.shape)
            return [_cast(total, value.dtype)]

    def gather(self, values: Sequence[tf.Tensor], axis: int, dim: int) -> list[tf.Tensor]:
        (group,), (value,) = self.groups([axis]), values
        if len(group) == 1:
            return list(values)
        rank, dtype = len(value.shape), value.dtype
        order = [dim, *(d for d in range(rank) if d != dim)]
        with tf.device(self.devices[0]):
            moved = tf.transpose(_gatherable(value), order) if dim else _gatherable(value)
            whole = self._collective(tf.raw_ops.CollectiveGatherV2, moved, self.axes_key(group, [axis]), group)
            whole.set_shape([len(group) * moved.shape[0], *moved.shape[1:]])
            by_name = sorted(group, key=lambda number: f"/task:{number}/")
            if by_name != group:  # TensorFlow orders a group by the names of its tasks: 0, 1, 10, 2
                pieces = tf.split(whole, len(group))
                whole = tf.concat([pieces[by_name.index(number)] for number in group], 0)
            whole = tf.transpose(whole, list(np.argsort(order))) if dim else whole
            return [_restored(whole, dtype)]

    def exchange(self, messages: Sequence[Message], values: Sequence[tf.Tensor]) -> list[tf.Tensor | None]:
        own, results = self._number, [None] * len(messages)
        sent: dict[int, list[int]] = {}  # {other shard: indices of messages}
        received: dict[int, list[int]] = {}
        for i, message in enumerate(messages):
            if message.source == own == message.target:
                with tf.device(self.devices[0]):
                    results[i] = message.make(0)
            elif message.source == own:
                sent.setdefault(message.target, []).append(i)
            elif message.target == own:
                received.setdefault(message.source, []).append(i)
        key = None
        if any(message.source != message.target for message in messages):
            key = self.keys.next()  # every process counts this collective
        for other in sorted(sent.keys() | received.keys()):
            outgoing = [messages[i] for i in sent.get(other, ())]
            incoming = [messages[i] for i in received.get(other, ())]
            with tf.device(self.devices[0]):
                arrived = self._swap(other, outgoing, incoming, values[0], key)
            for i, value in zip(received.get(other, ()), arrived, strict=True):
                results[i] = value
        return results

    def _swap(
        self, other: int, outgoing: Sequence[Message], incoming: Sequence[Message], own: tf.Tensor, key: tf.Tensor
    ) -> list[tf.Tensor]:
        """Exchanges messages with another shard in one all-to-all; the shorter direction is padded."""
        pair = sorted((self._number, other))
        dtype, wire_dtype = own.dtype, _wire_dtype(own.dtype)
        parts = [_cast(message.make(0), wire_dtype) for message in outgoing]
        sizes = [[math.prod(message.shape) for message in part] for part in (outgoing, incoming)]
        if len(outgoing) == len(incoming) == 1 and outgoing[0].shape == incoming[0].shape:
            (row,) = parts
        else:
            flat = [tf.reshape(part, [-1]) for part in parts]
            missing = max(sum(sizes[1]) - sum(sizes[0]), 0)
            flat += [tf.zeros([missing], wire_dtype)] if missing else []
            row = tf.concat(flat, 0) if len(flat) > 1 else flat[0]
        by_name = sorted(pair, key=lambda number: f"/task:{number}/")
        # An all-to-all also sends a row to this process itself, which nobody reads. Not a `tf.stack`: TensorFlow's
        # graph optimizer (2.21) replaces a stack of equal split outputs with a stack of the first output.
        both, group_key = tf.broadcast_to(row, [2, *row.shape]), self.pair_key(*pair)
        # A process that only receives does so when it could send, as the other process does.
        with tf.control_dependencies([] if outgoing else [own]):
            rows = self._collective(tf.raw_ops.CollectiveAllToAllV2, both, group_key, pair, key=key)
        rows.set_shape([2, *row.shape])
        arrived = rows[by_name.index(other)]
        if len(incoming) == 1 and arrived.shape == incoming[0].shape:
            return [_cast(arrived, dtype)]
        pieces, begin = [], 0
        for message, size in zip(incoming, sizes[1]):
            pieces.append(_cast(reshape(arrived[begin : begin + size], message.shape), dtype))
            begin += size
        return pieces

    def _collective(
        self,
        op: Callable[..., tf.Tensor],
        value: tf.Tensor,
        group_key: int,
        group: Sequence[int],
        key: tf.Tensor | None = None,
        **options: str,
    ) -> tf.Tensor:
        """Creates a collective operation in a group of shards."""
        key = self.keys.next() if key is None else key
        graph = tf.compat.v1.get_default_graph() if not tf.executing_eagerly() else None
        # NCCL requires the same order of launches in every process.
        before = [o for o in self._started[-1:] if self._in_order and o.graph is graph]
        with tf.device(self.devices[0]), tf.control_dependencies(before):
            result = op(
                input=value,
                group_size=len(group),
                group_key=group_key,
                instance_key=key,
                ordering_token=[],
                communication_hint=self._communication,
                timeout_seconds=0.0,
                **options,
            )
        if graph is not None:
            self._started.append(result.op)
        return result

    def pair_key(self, first: int, second: int) -> int:
        """Returns the group key of two shards, first < second."""
        return self._group_key(first * self.grid.num_shards + second)

    def axes_key(self, group: Sequence[int], axes: Collection[int]) -> int:
        """Returns the group key of the shards that differ only along mesh dimensions `axes`."""
        n = self.grid.num_shards
        return self._group_key(n * n + self._numbers.division(self.grid.shards, axes) * n + group[0])

    def _group_key(self, number: int) -> int:
        """Returns the key of a group with a given number; GPUs and CPUs of the same processes form different groups."""
        key = 1 + 2 * number + self._is_gpu
        assert key < _MAX_KEY
        return key


def _gatherable(x: tf.Tensor) -> tf.Tensor:
    """Converts a tensor to a dtype that TensorFlow's gather supports, without loss."""
    if x.dtype == tf.bfloat16:
        return tf.bitcast(x, tf.float16)
    return x if x.dtype in _GATHERED else tf.cast(x, _wire_dtype(x.dtype))


def _restored(x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Converts a tensor back; the inverse of `_gatherable`."""
    return tf.bitcast(x, dtype) if dtype == tf.bfloat16 else _cast(x, dtype)


def _wire_dtype(dtype: tf.DType) -> tf.DType:
    """Returns a dtype that TensorFlow's collectives support, and that represents all values of `dtype`."""
    if dtype in _SUMMED:
        return dtype
    return tf.int64 if dtype in _LARGE else tf.int32


def _cast(x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return x if x.dtype == dtype else tf.cast(x, dtype)
