"""The memory of a turn, and the bytes that turns store and read: computed from the stages, without running them."""

import collections
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine.meshes.turns import Grouped, Joined, Mark, Received, Turns
from mtf_imaging.engine.turns.kernels import ALIASES, OVERWRITING
from mtf_imaging.engine.turns.stages import Stage, num_bytes, num_nodes
from mtf_imaging.engine.turns.store import Store, Value, is_large

# Measured for training steps of U-Nets on a CPU with glibc, whose peak differs from the model by up to 13%
# (docs/evidence/memory.md): three kinds of memory are freed by different threads, and reused by none of the others.
_KEPT = 1.5


class TurnCosts(NamedTuple):
    """What the turns of a program keep and move, in bytes.

    Attributes:
      turns: number of turns.
      inputs: the inputs, which are whole.
      tensors: tensors at the peak: those within a stage, the results of the last turn, and values that are computed
        once, such as sums. Variables are not counted.
      reads: what a turn reads, in the stage that reads the most.
      writes: what a turn stores, in the stage that stores the most.
      nodes: number of nodes of the graph.
      stages: number of stages, each with its own function.
      waiting: the room for the values that wait.
      written: bytes that a call stores.
      read: bytes that a call reads again.
    """

    turns: int
    inputs: int
    tensors: int
    reads: int
    writes: int
    nodes: int
    stages: int
    waiting: int
    written: int
    read: int

    @property
    def memory(self) -> int:
        """What a device holds of a turn: inputs, tensors, and what the turn reads."""
        return self.inputs + self.tensors + self.reads

    @property
    def process_memory(self) -> int:
        """What a process holds that computes on the CPU.

        Threads read the next turn and write the last one. The process keeps freed memory.
        """
        return self.inputs + int(_KEPT * (self.tensors + 2 * self.reads + self.writes))


class _Span(NamedTuple):
    """A value that is in memory from one stage to another."""

    begin: int
    end: int
    nbytes: int


def turn_costs(
    turns: Turns, stages: Sequence[Stage], store: Store, known: Collection[str], results: Collection[str]
) -> TurnCosts:
    """Returns what the turns of a program keep and move.

    Args:
      turns: the turns, whose marks are in the graph.
      stages: the stages, in order.
      store: the stored values.
      known: names of the tensors that a call gets: inputs and variables.
      results: names of the tensors that a call returns.
    """
    marks = {f"{name}:0": mark for name, mark in turns.marks.items()}
    spans = [*_spans(turns.graph, stages, marks, results)]
    spans += [_Span(v.begin, v.end, v.nbytes * turns.number) for v in store.values.values() if store.is_kept(v)]
    tensors = reads = writes = read = 0
    for stage in stages:
        from_file = 0
        for x in stage.feeds:
            value, mark = _value(x, marks, store), marks.get(x.name)
            if value is None:
                continue
            own = sum(end - first for first, end in stage.extents[x.name])
            sources = mark.turns if isinstance(mark, Received) else range(turns.number)
            read += own * sum(source is not None for source in sources)
            from_file += 0 if store.is_kept(value) else own
        reads = max(reads, from_file)
        new = [store.values[x.name] for x in stage.fetches if x.name in store.values]
        writes = max(writes, sum(value.nbytes for value in new if not store.is_kept(value)))
        last = sum(map(_bytes, stage.fetches)) if stage.in_turns else 0
        alive = sum(span.nbytes for span in spans if span.begin <= stage.number <= span.end)
        tensors = max(tensors, _peak(stage, turns.computed) + last + alive)
    inputs = [x for x in map(turns.graph.get_tensor_by_name, known) if x.op.type == "Placeholder"]
    return TurnCosts(
        turns.number,
        sum(map(_bytes, inputs)),
        tensors,
        reads,
        writes,
        num_nodes(stages),
        len(stages),
        store.size,
        sum(value.nbytes for value in store.values.values()) * turns.number,
        read,
    )


def _value(x: tf.Tensor, marks: Mapping[str, Mark], store: Store) -> Value | None:
    """Returns the stored value that a stage reads as a feed; None for another feed."""
    mark = marks.get(x.name)
    return store.values.get(mark.source.name if isinstance(mark, Received) else x.name)


def _spans(
    graph: tf.Graph, stages: Sequence[Stage], marks: Mapping[str, Mark], results: Collection[str]
) -> Iterator[_Span]:
    """Yields the values that are computed once, or by groups of turns, and are not in a file."""

    def in_file(x: tf.Tensor) -> bool:
        while x.op.type in ALIASES:
            x = x.op.inputs[0]
        return isinstance(marks.get(x.name), Joined) and is_large(_bytes(x))

    last = {x.name: stage.number for stage in stages for x in stage.feeds}
    last |= dict.fromkeys(results, stages[-1].number)
    collected: dict[str, list[tuple[str, int]]] = collections.defaultdict(list)
    for name, mark in marks.items():
        if not isinstance(mark, Received):
            groups = len({*mark.groups} - {None}) if isinstance(mark, Grouped) else 1
            collected[mark.source.name].append((name, groups))
    for stage in stages:
        for x in stage.fetches:
            values = collected[x.name] if stage.in_turns else [(x.name, 1), *collected[x.name]]
            for name, number in values:
                if name in last and not in_file(graph.get_tensor_by_name(name)):
                    yield _Span(stage.number, last[name], number * _bytes(graph.get_tensor_by_name(name)))


def _peak(stage: Stage, computed: Mapping[str, tf.Tensor]) -> int:
    """Returns the most bytes that a stage holds at once, without what it reads.

    Operations run one after the other, and each tensor is freed after its last use. Neither kernel work space nor
    memory that the allocator wastes is counted.

    Args:
      stage: the stage.
      computed: {name of a placeholder: the tensor that a turn computes for it}.
    """
    given = {x.ref() for x in stage.feeds}
    order = [op for op in stage.operations if not given.intersection(x.ref() for x in op.outputs)]
    same: dict = {}  # a tensor that shares the memory of another one, which comes first
    last: dict = {}
    for number, op in enumerate(order):
        inputs = [computed.get(x.op.name, x).ref() for x in op.inputs]
        if op.type in ALIASES:
            same[op.outputs[0].ref()] = same.get(inputs[0], inputs[0])
        last.update((same.get(x, x), number) for x in inputs)
    last.update((same.get(x.ref(), x.ref()), len(order)) for x in stage.fetches)
    ends = collections.defaultdict(list)
    for x, number in last.items():
        ends[number].append(x)

    live: dict = {}
    total = most = 0
    for number, op in enumerate(order):
        new = {x.ref(): _bytes(x) for x in op.outputs if x.ref() not in same}
        total += sum(new.values())
        overwritten = 0
        if op.type in OVERWRITING:
            overwritten = max((live.get(x, 0) for x in ends[number] if live.get(x) in new.values()), default=0)
        most = max(most, total - overwritten)
        live |= new
        for x in [*ends[number], *(x for x in new if x not in last)]:
            total -= live.pop(x, 0)
    return most


def _bytes(x: tf.Tensor) -> int:
    """Returns the bytes of a tensor; those of a list are the bytes of its parts, which are tensors as well."""
    nbytes = num_bytes(x)
    return 0 if math.isinf(nbytes) else int(nbytes)
