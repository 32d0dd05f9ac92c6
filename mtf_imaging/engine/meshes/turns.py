"""Turns: processors that compute one after another on the same devices, and the values that pass between their turns.

A mesh in turns is lowered once, for a turn whose number is a placeholder. A value of another turn is a placeholder as
well, and a `Mark` says where its value comes from. `engine.turns` cuts the graph at the marks and calls its parts turn
by turn. The size of the graph therefore does not depend on the number of turns.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.local import constant
from mtf_imaging.engine.meshes.transport import Message, Transport


@dataclasses.dataclass(frozen=True)
class Mark:
    """Where the value of a placeholder comes from.

    Attributes:
      source: a tensor that every turn computes.
    """

    source: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Received(Mark):
    """The value of another turn.

    Attributes:
      turns: for each turn, the turn whose value it gets, or None if it gets `fill`.
      fill: a number.
      part: begin and size of the slice of the value that it gets; None if it gets the whole value.
    """

    turns: tuple[int | None, ...]
    fill: float
    part: tuple[tuple[int, ...], tuple[int, ...]] | None = None


@dataclasses.dataclass(frozen=True)
class Grouped(Mark):
    """A value that a group of turns computes together.

    Attributes:
      groups: for each turn, the number of its group; None if another turn has the same value.
    """

    groups: tuple[int | None, ...]


@dataclasses.dataclass(frozen=True)
class Reduced(Grouped):
    """The "SUM", "MAX" or "MIN" of the values of a group of turns.

    Attributes:
      reduction: the reduction.
    """

    reduction: str


@dataclasses.dataclass(frozen=True)
class Joined(Grouped):
    """The concatenated values of a group of turns.

    Attributes:
      dim: the dimension along which to concatenate.
      places: for each turn, the place of its value among those of its group.
    """

    dim: int
    places: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class First(Mark):
    """The value of turn 0, for a value that is equal in all turns."""


class Turns:
    """The turns of a mesh, in row-major order of the processors that take turns.

    Args:
      mesh: number of processors along each mesh dimension.
      axes: the mesh dimensions whose processors take turns.

    Attributes:
      mesh: number of processors along each mesh dimension.
      axes: the mesh dimensions whose processors take turns.
      number: number of turns.
      coordinates: for each turn, the coordinate along each mesh dimension, 0 along those that do not take turns.
      marks: {name of a placeholder: its `Mark`} in the graph that is being lowered.
      computed: {name of a placeholder: the tensor that a turn computes for it}.
      places: {mesh dimension: placeholder of the coordinate of a turn along it}.
    """

    def __init__(self, mesh: Sequence[int], axes: Collection[int]) -> None:
        self.mesh = tuple(mesh)
        self._sizes = [size if axis in axes else 1 for axis, size in enumerate(mesh)]
        self.axes = tuple(axis for axis, size in enumerate(self._sizes) if size > 1)
        self.number = math.prod(self._sizes)
        self.coordinates = list(itertools.product(*map(range, self._sizes)))
        self.marks: dict[str, Mark] = {}
        self.computed: dict[str, tf.Tensor] = {}
        self.places: dict[int, tf.Tensor] = {}
        self._along: dict[str, frozenset[int]] = {}
        self._elsewhere: dict[str, list[tf.Tensor]] = {}

    def begin(self) -> None:
        """Begins the graph of a program."""
        self.places = {axis: tf.compat.v1.placeholder(tf.int32, [], "place_of_turn") for axis in self.axes}
        self.marks, self.computed, self._elsewhere = {}, {}, {}
        self._along = {place.op.name: frozenset([axis]) for axis, place in self.places.items()}

    @property
    def graph(self) -> tf.Graph:
        """The graph of the program."""
        return self.places[self.axes[0]].graph

    def axes_of(self, x: tf.Tensor) -> frozenset[int]:
        """Returns the mesh dimensions along which a tensor may differ between turns."""
        known, stack = self._along, [x.op]
        while stack:
            op = stack[-1]
            inputs = self.inputs_of(op)
            waiting = [i.op for i in inputs if i.op.name not in known]
            if waiting and op.name not in known:
                stack += waiting
                continue
            stack.pop()
            if op.name not in known:
                known[op.name] = frozenset().union(*(known[i.op.name] for i in inputs))
        return known[x.op.name]

    def inputs_of(self, op: tf.Operation) -> list[tf.Tensor]:
        """Returns the tensors on which an operation depends, in this process or in another one."""
        return [self.computed.get(x.op.name, x) for x in [*op.inputs, *self._elsewhere.get(op.name, ())]]

    def alike(self, x: tf.Tensor, inputs: Iterable[tf.Tensor], keys: Sequence[Hashable] = ()) -> tf.Tensor:
        """Returns a tensor as one that depends on what other processes compute it from.

        All processes must exchange a value in the same turns, even if one of them knows it in advance: a slice at the
        border, or one without elements.

        Args:
          x: the tensor.
          inputs: the tensors from which some processes compute it.
          keys: for each turn, a key. Some processes compute different values in turns with different keys.
        """
        x, key_at = tf.identity(x), dict(zip(self.coordinates, keys))
        self._elsewhere[x.op.name] = [
            *inputs,
            *(
                self.places[axis]
                for axis in self.axes
                if any(key != key_at[(*at[:axis], 0, *at[axis + 1 :])] for at, key in key_at.items())
            ),
        ]
        return x

    def parity(self, call: tf.Tensor) -> tf.Tensor:
        """Returns the parity of the calls of a stage, which is called for every turn.

        Args:
          call: the parity of the calls of the program, Tensor[] int32.
        """
        with tf.device("CPU:0"):
            turn = self.table([np.int32(turn % 2) for turn in range(self.number)])
            return tf.bitwise.bitwise_xor(turn, call) if self.number % 2 else turn

    def at(self, shard: Sequence[int], turn: int) -> tuple[int, ...]:
        """Returns the coordinates of a shard in a turn."""
        return tuple(a + b for a, b in zip(shard, self.coordinates[turn], strict=True))

    def table(self, values: Sequence[Any]) -> tf.Tensor:
        """Returns the entry of this turn from a sequence of arrays of one shape, one for each turn."""
        arrays = np.array(values)
        entries = arrays.reshape(*self._sizes, *arrays.shape[1:])
        index = tf.constant(0)
        for axis in self.axes:
            first = entries.take([0], axis)
            if (entries == first).all():
                entries = first
            else:
                index = index * self._sizes[axis] + self.places[axis]
        entries = entries.reshape(-1, *arrays.shape[1:])
        return tf.constant(entries[0]) if len(entries) == 1 else tf.gather(tf.constant(entries), index)

    def choose(self, keys: Sequence[Hashable], make: Callable[[int], Any]) -> Any:
        """Returns `make(turn)` for this turn, traced once for all turns with equal keys."""
        kinds = {key: turn for turn, key in reversed(list(enumerate(keys)))}
        if len(kinds) == 1:
            return make(0)
        number = {key: i for i, key in enumerate(kinds)}
        branches = [lambda turn=turn: make(turn) for turn in kinds.values()]
        return tf.switch_case(self.table([np.int32(number[key]) for key in keys]), branches)

    def part(self, x: tf.Tensor, dim: int, axis: int) -> tf.Tensor:
        """Returns the part of this turn of a dimension that is split over a mesh dimension."""
        size = -(-x.shape[dim] // self._sizes[axis])
        at = self.places[axis] * size + np.arange(size, dtype=np.int32)
        return tf.gather(x, tf.minimum(at, x.shape[dim] - 1), axis=dim)  # tails repeat the last element

    def offset(self, axis: int, size: int) -> tf.Tensor:
        """Returns the number of the first element of this turn's slices, uint32, for slices of `size` elements."""
        return tf.cast(self.places[axis] * size, tf.uint32)

    def receive(self, x: tf.Tensor, axis: int, sources: Sequence[int | None], fill: float) -> tf.Tensor:
        """Returns the value of the turn whose coordinate along a mesh dimension is `sources[own coordinate]`."""
        number = {at: turn for turn, at in enumerate(self.coordinates)}
        turns: list[int | None] = []
        for at in self.coordinates:
            source = sources[at[axis]]
            turns.append(None if source is None else number[(*at[:axis], source, *at[axis + 1 :])])
        if axis not in self.axes_of(x):
            exists = [turn is not None for turn in turns]
            return x if all(exists) else tf.where(self.table(exists), x, constant(fill, x.dtype))
        return self.mark(Received(x, tuple(turns), fill), x.shape, self.axes_of(x))

    def reduce(self, x: tf.Tensor, axes: Collection[int], reduction: str) -> tf.Tensor:
        """Returns the "SUM", "MAX" or "MIN" over the turns that differ only along mesh dimensions."""
        along = self.axes_of(x)
        repeats = math.prod(self._sizes[axis] for axis in axes if axis in self.axes and axis not in along)
        reduced = along.intersection(axes)
        if reduced:
            x = self.mark(Reduced(x, self._groups(along, reduced), reduction), x.shape, along - reduced)
        return x * tf.cast(repeats, x.dtype) if reduction == "SUM" and repeats > 1 else x

    def join(self, x: tf.Tensor, axis: int, dim: int) -> tf.Tensor:
        """Returns the concatenated values of the turns that differ only along a mesh dimension."""
        shape, along = x.shape.as_list(), self.axes_of(x)
        shape[dim] *= self._sizes[axis]
        if axis not in along:
            return tf.tile(x, [self._sizes[axis] if d == dim else 1 for d in range(len(shape))])
        places = tuple(at[axis] for at in self.coordinates)
        return self.mark(Joined(x, self._groups(along, {axis}), dim, places), shape, along - {axis})

    def first(self, x: tf.Tensor) -> tf.Tensor:
        """Returns a value that is equal in all turns as a value that is computed once."""
        return self.mark(First(x), x.shape, frozenset()) if self.axes_of(x) else x

    def _groups(self, along: Collection[int], axes: Collection[int]) -> tuple[int | None, ...]:
        """Returns for each turn the number of its group.

        Args:
          along: the mesh dimensions along which values differ. Of the turns that have the same value, only the first
            belongs to a group.
          axes: the mesh dimensions along which the turns of a group differ.
        """
        numbers: dict[tuple[int, ...], int] = {}
        groups: list[int | None] = []
        for at in self.coordinates:
            if any(at[axis] for axis in self.axes if axis not in along):
                groups.append(None)
            else:
                kept = tuple(0 if axis in axes else c for axis, c in enumerate(at))
                groups.append(numbers.setdefault(kept, len(numbers)))
        return tuple(groups)

    def group_of(self, groups: Sequence[int | None], turn: int, axes: Collection[int]) -> int:
        """Returns the number of the group whose result a turn reads; its turns differ only along `axes`."""
        at = self.coordinates[turn]
        return next(
            group
            for group, other in zip(groups, self.coordinates)
            if group is not None and all(at[axis] == other[axis] for axis in axes)
        )

    def mark(self, mark: Mark, shape: Any, along: frozenset[int]) -> tf.Tensor:
        """Returns a placeholder with a mark for a value that differs between turns along mesh dimensions."""
        placeholder = tf.compat.v1.placeholder(mark.source.dtype, shape, "of_turns")
        self.marks[placeholder.op.name] = mark
        self._along[placeholder.op.name] = along
        return placeholder


class InTurns(Transport):
    """Moves tensors between the turns of a mesh, and, by other transports, between the shards within a turn.

    Args:
      once: the transport of the shards, for values that are computed once.
      each: the transport of the shards, for values that are computed in every turn.
      turns: the turns.
    """

    def __init__(self, once: Transport, each: Transport, turns: Turns) -> None:
        super().__init__(dataclasses.replace(once.grid, mesh=turns.mesh), once.numbers, once.devices)
        self._once, self._each, self._turns = once, each, turns
        self._started: list[tf.Operation] = []
        self.in_turns = turns.axes

    @property
    def within_turn(self) -> Transport:
        return self._once

    def begin(self, turn: tf.Tensor | None) -> None:
        self._turns.begin()
        self._once.begin(turn)
        self._each.begin(None if turn is None else self._turns.parity(turn))
        self._started = []

    def end(self) -> list[tf.Operation]:
        return self._started

    def watched(self) -> Any:
        return self._once.watched()

    def axes_of(self, x: tf.Tensor) -> frozenset[int]:
        return self._turns.axes_of(x)

    def reduce(
        self, values: Sequence[tf.Tensor], axes: Collection[int], reduction: str, everywhere: bool = True
    ) -> list[tf.Tensor]:
        values = [self._turns.reduce(x, axes, reduction) for x in values]
        axes = [axis for axis in axes if axis not in self.in_turns]
        return self._move(values, lambda inner: inner.reduce(values, axes, reduction, everywhere))

    def gather(self, values: Sequence[tf.Tensor], axis: int, dim: int) -> list[tf.Tensor]:
        if axis in self.in_turns:
            return [self._turns.join(x, axis, dim) for x in values]
        return self._move(values, lambda inner: inner.gather(values, axis, dim))

    def exchange(self, messages: Sequence[Message], values: Sequence[tf.Tensor]) -> list[tf.Tensor | None]:
        return self._move(values, lambda inner: inner.exchange(messages, values))

    def _move(self, values: Sequence[tf.Tensor], move: Callable[[Transport], Any]) -> Any:
        """Calls a function with the transport of values."""
        inner = self._each if any(map(self.axes_of, values)) else self._once
        results = move(inner)
        self._started += inner.end()
        return results

    def part(self, whole: tf.Tensor, split: Sequence[int | None]) -> tf.Tensor:
        for dim, axis in enumerate(split):
            if axis is not None and axis in self.in_turns:
                whole = self._turns.part(whole, dim, axis)
        return whole

    def joined(self, part: tf.Tensor, split: Sequence[int | None]) -> tf.Tensor:
        for dim, axis in enumerate(split):
            if axis is not None and axis in self.in_turns:
                part = self._turns.join(part, axis, dim)
        return part
