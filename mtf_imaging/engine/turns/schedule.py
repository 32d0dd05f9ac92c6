"""Runs the stages of a program: one after another, and each stage in turns once for every turn."""

import collections
import concurrent.futures
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.meshes.turns import First, Grouped, Joined, Mark, Received, Reduced, Turns
from mtf_imaging.engine.turns import stages
from mtf_imaging.engine.turns.costs import TurnCosts, turn_costs
from mtf_imaging.engine.turns.store import Store, Value, as_tensor

Consume = Callable[[slice, np.ndarray], None]  # see `Schedule.__call__`
_ROWS = 1  # the dimension after `batch`
_COMBINE: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "SUM": tf.add,
    "MAX": tf.maximum,
    "MIN": tf.minimum,
}


class _Collected(NamedTuple):
    """A mark whose values a stage collects while it runs: the name of its placeholder, and the mark."""

    name: str
    mark: Mark


class _Streamed(NamedTuple):
    """A result of turns that need not be kept: every turn computes the next rows of it.

    Attributes:
      name: the name of the placeholder of the joined rows.
      num_rows: number of rows; the last turn may compute more.
    """

    name: str
    num_rows: int


class Schedule:
    """The compiled stages of a program.

    Args:
      turns: the turns of the mesh.
      results: the tensors that a call returns, each computed once.
      known: names of the tensors that a call gets: inputs and variables.
      folder: the folder for stored values; None for memory.
      device: the device of values that are computed once.
      must_run: operations that a call runs even if nothing depends on them.

    Attributes:
      num_nodes: number of operations in all stages, each counted once.
      stages: the stages, in order.
      store: the stored values.
      streamed: the only result, if its rows can be passed on while they are computed; otherwise None.
    """

    def __init__(
        self,
        turns: Turns,
        results: Sequence[tf.Tensor],
        known: Sequence[str],
        folder: str | None,
        device: str,
        must_run: Sequence[tf.Operation],
    ) -> None:
        graph = turns.graph
        self._turns, self._results, self._device = turns, [x.name for x in results], device
        self._known = known
        self.stages = stages.cut(turns, results, set(known), set(must_run))
        self._functions = stages.make_functions(turns, self.stages)
        self._marks = {f"{name}:0": mark for name, mark in turns.marks.items()}
        self._axes = {name: turns.axes_of(graph.get_tensor_by_name(name)) for name in self._marks}
        self._places = {place.name: axis for axis, place in turns.places.items()}
        self._numbers = [tf.constant(at, tf.int32) for at in range(turns.number)]
        self.num_nodes = stages.num_nodes(self.stages)
        self._computing = concurrent.futures.ThreadPoolExecutor(1, "turn")
        self._last = self._last_readers()
        fetched = {x.name for stage in self.stages for x in stage.fetches}
        self._collected: dict[str, list[_Collected]] = collections.defaultdict(list)
        for name, mark in self._marks.items():
            if not isinstance(mark, Received) and mark.source.name in fetched:
                self._collected[mark.source.name].append(_Collected(name, mark))
        values = {
            x.name: Value(tuple(x.shape), x.dtype, stage.number, self._last[x.name])
            for stage in self.stages
            if stage.in_turns
            for x in stage.fetches
            if x.name in self._last
        }
        self.store = Store(values, turns.number, folder)
        fed = {x.name: stage.number for stage in self.stages for x in stage.feeds}
        self.streamed = self._streamed()
        self._consume: Consume | None = None
        self._ends: dict[int, list[str]] = collections.defaultdict(list)
        for name, number in fed.items():
            if name not in self._results:
                self._ends[number].append(name)

    def _last_readers(self) -> dict[str, int]:
        """Returns the last stage that reads each stored tensor."""
        last: dict[str, int] = {}
        for stage in self.stages:
            for x in stage.feeds:
                mark = self._marks.get(x.name)
                if isinstance(mark, Received):
                    last[mark.source.name] = stage.number
                elif stage.in_turns and mark is None:
                    last[x.name] = stage.number
        return last

    def _streamed(self) -> _Streamed | None:
        if len(self._results) != 1 or len(self._turns.axes) != 1:
            return None
        result = x = self._turns.graph.get_tensor_by_name(self._results[0])
        while x.op.type == "Identity" or (x.op.type == "Slice" and not np.any(tf.get_static_value(x.op.inputs[1]))):
            x = x.op.inputs[0]  # what cuts off the rows beyond an uneven split
        mark = self._marks.get(x.name)
        if not isinstance(mark, Joined) or mark.dim != _ROWS or x.shape[2:] != result.shape[2:]:
            return None
        in_order = [*mark.places] == [*range(self._turns.number)]
        return _Streamed(x.name, result.shape[_ROWS]) if in_order else None

    @property
    def costs(self) -> TurnCosts:
        """What the turns keep and move."""
        return turn_costs(self._turns, self.stages, self.store, self._known, self._results)

    def __call__(self, known: Mapping[str, tf.Tensor], consume: Consume | None = None) -> list[tf.Tensor]:
        """Computes the results.

        Args:
          known: {name: value} of the tensors that the program gets.
          consume: is called with the range and the values of the next rows of the result, `[batch, rows, ...]`; nothing
            is returned then. The result must be `streamed`.
        """
        self.store.open()
        self._consume = consume
        try:
            return self._run(dict(known))
        except BaseException:
            self.store.forget()
            raise
        finally:
            self._consume = None

    def _run(self, values: dict[str, tf.Tensor | list[tf.Tensor]]) -> list[tf.Tensor]:
        with tf.device(self._device):
            for stage, function in zip(self.stages, self._functions, strict=True):
                if self._consume is not None and stage is self.stages[-1]:
                    return []  # it only returns the joined rows

                if stage.in_turns:
                    self._run_turns(stage, function, values)
                else:
                    outputs = function(*[values[x.name] for x in stage.feeds])
                    values.update((x.name, y) for x, y in zip(stage.fetches, outputs, strict=True))
                self._drop(stage.number, values)
        return [values[name] for name in self._results]

    def _drop(self, number: int, values: dict) -> None:
        """Drops the values that no later stage reads."""
        self.store.drop([name for name, last in self._last.items() if last == number])
        for name in self._ends[number]:
            values.pop(name, None)

    def _run_turns(self, stage: stages.Stage, function: Callable[..., list[tf.Tensor]], values: dict) -> None:
        collected: dict[str, list] = {
            own.name: [None] * len({*getattr(own.mark, "groups", (0,))} - {None})
            for x in stage.fetches
            for own in self._collected[x.name]
        }
        following: list = self._requests(stage, 0, values)
        outputs: Sequence[tf.Tensor] = ()
        for turn in range(self._turns.number):
            arguments = [x.result() if isinstance(x, concurrent.futures.Future) else x for x in following]
            running = self._computing.submit(self._compute, function, arguments)
            del arguments
            if turn:  # while this turn computes
                self._keep(stage, turn - 1, outputs, collected)
            if turn + 1 < self._turns.number:
                following = self._requests(stage, turn + 1, values)
            outputs = running.result()
        self._keep(stage, self._turns.number - 1, outputs, collected)
        self.store.settle(self._turns.number - 1)
        for name, parts in collected.items():
            if self._consume is not None and self.streamed is not None and name == self.streamed.name:
                continue
            done = [as_tensor(part) if isinstance(part, np.ndarray) else part for part in parts]
            values[name] = done if self._axes[name] else done[0]

    def _compute(self, function: Callable[..., list[tf.Tensor]], arguments: Sequence) -> list[tf.Tensor]:
        with tf.device(self._device):  # a thread has its own
            return function(*arguments)

    def _keep(self, stage: stages.Stage, turn: int, outputs: Sequence[tf.Tensor], collected: Mapping) -> None:
        """Stores and collects the outputs of a turn."""
        if turn:
            self.store.settle(turn - 1)
        for x, y in zip(stage.fetches, outputs, strict=True):
            if x.name in self._last and stage.number < self._last[x.name]:
                self.store.put(x.name, turn, y)
            for own in self._collected[x.name]:
                if self._consume is not None and self.streamed is not None and own.name == self.streamed.name:
                    first_row = turn * y.shape[_ROWS]
                    rows = slice(first_row, min(first_row + y.shape[_ROWS], self.streamed.num_rows))
                    if rows.start < rows.stop:
                        self._consume(rows, np.asarray(y)[:, : rows.stop - rows.start])
                    continue
                first = isinstance(own.mark, First) and turn == 0
                self._collect(collected[own.name], own.mark, turn, self.store.own(y) if first else y)

    def _requests(self, stage: stages.Stage, turn: int, values: Mapping) -> list:
        """Returns the values that a stage reads in a turn; those that are read from the store are futures."""
        return list(self._requested(stage, turn, values))

    def _requested(self, stage: stages.Stage, turn: int, values: Mapping) -> Iterator:
        for x in stage.feeds:
            mark = self._marks.get(x.name)
            if x.name in self._places:
                yield self._numbers[self._turns.coordinates[turn][self._places[x.name]]]
            elif isinstance(mark, Received):
                source = mark.turns[turn]
                if source is None:
                    yield tf.fill(x.shape, tf.constant(x.dtype.as_numpy_dtype(mark.fill), x.dtype))
                else:
                    yield self.store.fetch(mark.source.name, source, stage.extents[x.name], mark.part)
            elif x.name in values:
                value = values[x.name]
                if isinstance(mark, Grouped) and self._axes[x.name]:
                    value = value[self._turns.group_of(mark.groups, turn, self._axes[x.name])]
                yield value
            else:
                yield self.store.fetch(x.name, turn, stage.extents[x.name])

    def _collect(self, parts: list, mark: Mark, turn: int, value: tf.Tensor) -> None:
        """Adds the value of a turn to what a mark collects."""
        if isinstance(mark, First):
            parts[0] = value if turn == 0 else parts[0]
        elif not isinstance(mark, Grouped) or (group := mark.groups[turn]) is None:
            return
        elif isinstance(mark, Reduced):
            parts[group] = value if parts[group] is None else _COMBINE[mark.reduction](parts[group], value)
        elif isinstance(mark, Joined):
            size = value.shape[mark.dim]
            if parts[group] is None:
                shape = value.shape.as_list()
                shape[mark.dim] *= 1 + max(mark.places)
                parts[group] = self.store.empty(shape, value.dtype)
            begin = mark.places[turn] * size
            place: list = [slice(None)] * len(value.shape)
            place[mark.dim] = slice(begin, begin + size)
            parts[group][tuple(place)] = np.asarray(value)
