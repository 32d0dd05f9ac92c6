"""Cuts the graph of a mesh in turns into stages.

A stage is computed once, or once for each turn. It begins when all values that it reads are complete: a sum over all
turns, or a strip of another turn. Stages alternate: stage 0 is computed once, stage 1 in turns, stage 2 once, and so
on. An operation belongs to the first stage that has its inputs.

A tensor of a turn that a later stage reads is stored. If it is computed from stored tensors by cheap operations, such
as an activation function, the later stage computes it again instead.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine.meshes.turns import Turns
from mtf_imaging.engine.turns.kernels import ALIASES, CHEAP
from mtf_imaging.engine.turns.slicing import slice_early
from mtf_imaging.engine.turns.store import extent

_GRADIENTS_OF_MAX_POOLS = frozenset(("MaxPoolGrad", "MaxPool3DGrad"))
_ROUNDS = 4  # what is stored and what is computed again depend on each other
_EFFECTS = ("Assert", "PrintV2")


@dataclasses.dataclass
class Stage:
    """A part of the graph.

    Attributes:
      number: its place in the order of stages; odd numbers are computed in turns.
      feeds: the tensors that it reads.
      fetches: the tensors that later stages, or the results, read.
      effects: operations that it runs because of their effects, in this order.
      operations: the operations that it computes, each after those that it needs.
      extents: {feed: the bytes (first, end) of it that are read}.
    """

    number: int
    feeds: list[tf.Tensor] = dataclasses.field(default_factory=list)
    fetches: list[tf.Tensor] = dataclasses.field(default_factory=list)
    effects: list[tf.Operation] = dataclasses.field(default_factory=list)
    operations: list[tf.Operation] = dataclasses.field(default_factory=list)
    extents: dict[str, list[tuple[int, int]]] = dataclasses.field(default_factory=dict)

    @property
    def in_turns(self) -> bool:
        return self.number % 2 == 1


def cut(
    turns: Turns, results: Iterable[tf.Tensor], known: Collection[str], must_run: Collection[tf.Operation]
) -> list[Stage]:
    """Returns the stages that compute results, in order.

    Args:
      turns: the turns of the mesh, whose marks are in the graph.
      results: tensors that are computed once.
      known: names of the tensors that have values before the first stage: inputs and variables.
      must_run: a set of operations that run even if nothing depends on them.
    """
    results, known = list(results), frozenset(known)
    slice_early(turns, _cut(turns, results, known, must_run).stored)
    return _cut(turns, results, known, must_run).stages


class _Cut(NamedTuple):
    """A graph that was cut into stages.

    Attributes:
      stages: the stages, in order.
      stored: references of the tensors that are stored.
    """

    stages: list[Stage]
    stored: frozenset


def _cut(
    turns: Turns, results: Sequence[tf.Tensor], known: Collection[str], must_run: Collection[tf.Operation]
) -> _Cut:
    operations = turns.graph.get_operations()
    places = _Places(turns, operations, known)
    effects = [op for op in operations if op.type in _EFFECTS or op in must_run]
    again: set = {x.ref() for op in operations if op.type in ALIASES for x in op.outputs}
    shared: set = set()
    for _ in range(_ROUNDS):
        stored = _stored(places, _stages(places, results, effects, again))
        again, shared = _recomputed(places, stored, shared)
    stages = _stages(places, results, effects, again)
    for stage in stages:
        stage.extents = _extents(places, stage)
    return _Cut(stages, _stored(places, stages))


def _stored(places: "_Places", stages: Sequence[Stage]) -> frozenset:
    """Returns the references of the tensors of turns that stages read."""
    feeds = [places.source(x) for stage in stages if stage.in_turns for x in stage.feeds]
    return frozenset(x.ref() for x in feeds if places.is_in_turns(x) and not places.is_given(x))


class _Places:
    """The stage of each operation, None if it depends on nothing but constants."""

    def __init__(self, turns: Turns, operations: Iterable[tf.Operation], known: Collection[str]) -> None:
        self._turns, self._known = turns, known
        self._stage: dict[tf.Operation, int | None] = {}
        stack = list(operations)
        while stack:  # the source of a mark may come later than the mark
            if stack[-1] in self._stage:
                stack.pop()
            elif waiting := [op for op in self._before(stack[-1]) if op not in self._stage]:
                stack += waiting
            else:
                self._stage[stack[-1]] = self._place(stack[-1])
        self._order = {op: number for number, op in enumerate(self._stage)}

    def _before(self, op: tf.Operation) -> list[tf.Operation]:
        mark = self._turns.marks.get(op.name)
        return [
            *(x.op for x in self._turns.inputs_of(op)),
            *op.control_inputs,
            *([] if mark is None else [mark.source.op]),
        ]

    def inputs(self, op: tf.Operation) -> list[tf.Tensor]:
        """Returns the inputs of an operation in this process."""
        return [self._turns.computed.get(x.op.name, x) for x in op.inputs]

    def _place(self, op: tf.Operation) -> int | None:
        if self._is_place(op):
            return 1
        if op.name in self._turns.marks:
            mark = self._turns.marks[op.name]
            complete = (self._stage[mark.source.op] or 0) + 1
            return complete + 1 if self._turns.axes_of(op.outputs[0]) else complete
        if any(x.name in self._known for x in op.outputs) or op.type == "Placeholder":
            return 0
        before = [stage for x in self._turns.inputs_of(op) if (stage := self._stage[x.op]) is not None]
        if not before:
            return None
        in_turns = any(stage % 2 for stage in before)
        # What is computed once may precede the turns for which it waits: only the results of turns are large.
        before += [stage for other in op.control_inputs if (stage := self._stage[other]) is not None]
        return max(before) // 2 * 2 + in_turns

    def _is_place(self, op: tf.Operation) -> bool:
        return any(op is place.op for place in self._turns.places.values())

    def __getitem__(self, op: tf.Operation) -> int | None:
        return self._stage[op]

    def is_constant(self, x: tf.Tensor) -> bool:
        return self._stage[x.op] is None

    def is_in_turns(self, x: tf.Tensor) -> bool:
        stage = self._stage[x.op]
        return stage is not None and stage % 2 == 1

    def is_given(self, x: tf.Tensor) -> bool:
        """Returns whether a tensor is no result of an operation: the place of the turn, a mark, or a known value."""
        return self._is_place(x.op) or x.op.name in self._turns.marks or x.name in self._known

    def source(self, x: tf.Tensor) -> tf.Tensor:
        """Returns the tensor from which the value of a mark is made; any other tensor is its own source."""
        return self._turns.marks[x.op.name].source if x.op.name in self._turns.marks else x

    @property
    def operations(self) -> list[tf.Operation]:
        """All operations, each after those that it needs."""
        return list(self._order)

    def order(self, op: tf.Operation) -> int:
        """Returns the place of an operation among all operations."""
        return self._order[op]

    @property
    def last(self) -> int:
        return max((stage for stage in self._stage.values() if stage is not None), default=0)


def _stages(
    places: _Places,
    results: Sequence[tf.Tensor],
    effects: Sequence[tf.Operation],
    again: Collection,
) -> list[Stage]:
    """Finds what each stage reads and computes, from the last stage to the first.

    Args:
      places: the stage of each operation.
      results: the results of the program.
      effects: operations that run because of their effects.
      again: the tensors of turns that later stages compute again.
    """
    stages = [Stage(number) for number in range(places.last + 1)]
    wanted: list[dict] = [{} for _ in stages]  # as an ordered set

    def want(x: tf.Tensor) -> None:
        source = places.source(x)
        if source is not x or not places.is_given(x):
            wanted[places[source.op] or 0][source.ref()] = source

    for x in results:
        want(x)
    for op in effects:
        stages[places[op] or 0].effects.append(op)
    for stage in reversed(stages):
        stage.fetches = list(wanted[stage.number].values())
        feeds: dict = {}
        todo = [x.op for x in stage.fetches if not places.is_given(x)] + stage.effects
        feeds.update({x.ref(): x for x in stage.fetches if places.is_given(x)})
        operations: set[tf.Operation] = set()
        while todo:
            op = todo.pop()
            if op in operations:
                continue
            operations.add(op)
            for x in places.inputs(op):
                own = places[x.op] == stage.number or places.is_constant(x)
                if places.is_given(x) or not (own or (stage.in_turns and places.is_in_turns(x) and x.ref() in again)):
                    feeds[x.ref()] = x
                else:
                    todo.append(x.op)
        stage.operations = sorted(operations, key=places.order)
        stage.feeds = list(feeds.values())
        for x in stage.feeds:
            want(x)
    return [stage for stage in stages if stage.fetches or stage.effects]


def _extents(places: _Places, stage: Stage) -> dict[str, list[tuple[int, int]]]:
    """Returns the bytes of each feed of known size that a stage reads: only those of slices if it reads no others."""
    users: dict = collections.defaultdict(list)
    for op in stage.operations:
        for x in places.inputs(op):
            users[x.ref()].append(op)
    fetched = {x.ref() for x in stage.fetches}
    extents = {}
    for x in stage.feeds:
        if math.isfinite(num_bytes(x)):
            slices = x.ref() not in fetched and all(op.type == "Slice" for op in users[x.ref()])
            extents[x.name] = [_extent(op) for op in users[x.ref()]] if slices else [(0, int(num_bytes(x)))]
    return extents


def _extent(cut_out: tf.Operation) -> tuple[int, int]:
    """Returns the bytes (first, end) of the input of a `Slice` between its first and its last element."""
    x, begin, _ = cut_out.inputs
    first = tf.get_static_value(begin)
    if first is None or not num_bytes(cut_out.outputs[0]):
        return 0, int(num_bytes(x))
    return extent(x.shape.as_list(), x.dtype.size, first, cut_out.outputs[0].shape.as_list())


def _recomputed(places: _Places, stored: Collection, shared: Collection) -> tuple[set, set]:
    """Finds the tensors of turns that later stages compute again, because little is stored for them.

    Args:
      places: the stage of each operation.
      stored: the tensors that are stored so far.
      shared: sources that are stored instead of a tensor of the same size, because they serve several tensors.

    Returns:
      The tensors, and the sources to share next time.
    """
    again: set = set()
    users: dict = collections.Counter()
    cost: dict = collections.defaultdict(int)  # bytes to store so that a later stage can read a tensor
    source: dict = {}  # the only tensor that must be stored for it
    for op in places.operations:
        for x in op.outputs:
            if not places.is_in_turns(x) or places.is_given(x):
                continue
            inputs, own, key = {i.ref() for i in places.inputs(op)}, num_bytes(x), x.ref()
            others = sum(cost[i] for i in inputs)
            needed = [i for i in inputs if cost[i]]
            only = source.get(needed[0]) if len(needed) == 1 else None
            cheaper = others < own or op.type in ALIASES or (others == own and only in shared)
            if _serves_gradient(x) or (_is_cheap(op) and cheaper):
                again.add(key)
                cost[key], source[key] = others, only
                continue
            if key in stored and _is_cheap(op) and others == own and only is not None:
                users[only] += 1
            cost[key], source[key] = (0 if key in stored else own), (key if not _is_cheap(op) else None)
    return again, {*shared, *(key for key, number in users.items() if number > 1)}


def _serves_gradient(x: tf.Tensor) -> bool:
    """Returns whether a tensor is a max pool for its gradient, which reads the input of the pool as well.

    TensorFlow uses oneDNN's gradient only in a function that has both operations; its own takes 20 times as long, and
    breaks ties in another way.
    """
    users = x.consumers()
    return bool(users) and all(op.type in _GRADIENTS_OF_MAX_POOLS for op in users)


def _is_cheap(op: tf.Operation) -> bool:
    if any(x.dtype == tf.variant for x in op.outputs):
        return True  # a list, such as the rows of a random mask, cannot be stored
    if op.type == "FusedBatchNormV3":
        return not op.get_attr("is_training")  # a product and a sum
    return op.type in CHEAP


def num_bytes(x: tf.Tensor) -> float:
    """Returns the bytes of a tensor, or infinity if it cannot be stored: a list, or a tensor of unknown shape."""
    if x.dtype == tf.variant or not x.shape.is_fully_defined():
        return math.inf
    return math.prod(x.shape) * x.dtype.size


def num_nodes(stages: Iterable[Stage]) -> int:
    """Returns the number of operations in all stages, each counted once."""
    return len(frozenset().union(*(stage.operations for stage in stages)))


def make_functions(turns: Turns, stages: Sequence[Stage]) -> list[Callable[..., list[tf.Tensor]]]:
    """Returns for each stage the compiled function from the values of its feeds to those of its fetches."""
    whole = turns.graph.as_graph_def()
    for node in whole.node:
        node.attr.pop("_class", None)  # the operation next to which it is placed may be in another stage
        for place, name in enumerate(node.input):
            if name in turns.computed:
                node.input[place] = turns.computed[name].name.removesuffix(":0")
    nodes = {node.name: node for node in whole.node}
    return [_function(stage, nodes, whole) for stage in stages]


def _function(
    stage: Stage, nodes: Mapping[str, tf.compat.v1.NodeDef], whole: tf.compat.v1.GraphDef
) -> Callable[..., list[tf.Tensor]]:
    names, effects = {op.name for op in stage.operations}, [op.name for op in stage.effects]
    # Exchanges that processes start in different orders wait for each other.
    previous = dict(zip(effects[1:], effects))
    part = tf.compat.v1.GraphDef(versions=whole.versions)
    for name in names:
        node = part.node.add()
        node.CopyFrom(nodes[name])
        kept = [x for x in node.input if not x.startswith("^") or x[1:] in names]
        del node.input[:]
        node.input.extend([*kept, *([f"^{previous[name]}"] if name in previous else [])])
    _add_functions(part, whole)
    given = {x.ref(): place for place, x in enumerate(stage.feeds)}
    used = {name.removesuffix(":0") for node in part.node for name in node.input}

    def call(*values: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
        own = [x.name for x in stage.fetches if x.ref() not in given]
        inputs = {
            x.name: value for x, value in zip(stage.feeds, values, strict=True) if x.name.removesuffix(":0") in used
        }
        found = tf.graph_util.import_graph_def(part, input_map=inputs, return_elements=own + effects, name="")
        computed = dict(zip(own, found[: len(own)], strict=True))
        with tf.control_dependencies(found[len(own) :]):
            fetched = [values[given[x.ref()]] if x.ref() in given else computed[x.name] for x in stage.fetches]
            return [tf.identity(x) for x in fetched], tf.constant(True)  # without fetches, only this reads the effects

    specs = [tf.TensorSpec(x.shape, x.dtype) for x in stage.feeds]
    function = tf.function(call, autograph=False).get_concrete_function(*specs)
    return lambda *values: function(*values)[0]


def _add_functions(part: tf.compat.v1.GraphDef, whole: tf.compat.v1.GraphDef) -> None:
    """Adds the functions that the nodes of a part call, such as the branches of a case.

    With a copy of all functions in each stage, an uneven layout of a small network would take 0.2 GiB more.
    """
    functions, todo = {function.signature.name: function for function in whole.library.function}, list(part.node)
    while todo:
        attributes = todo.pop().attr.values()
        for called in [each for value in attributes for each in (value.func, *value.list.func)]:
            function = functions.pop(called.name, None)
            if function is not None:
                part.library.function.append(function)
                todo += function.node_def
