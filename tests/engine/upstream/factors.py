"""Functions of `mtf` with several factors, any of which may lack any dimension, and the scenarios to test them in.

A scenario states for every dimension which factors have it, whether a sum keeps it, and what splits it. Every pair of
such states of two dimensions occurs in a scenario.
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

import mtf_imaging as mi

mtf = mi.mtf
Shape = mtf.Shape

# Over 2 processors: slices of 2, 2; of 3, 2; of 2, 1; of 1, 1. Over 3: of 2, 2, 0; of 2, 2, 1; of 1, 1, 1; of 1, 1, 0.
SIZES = {"p": 4, "q": 5, "r": 3, "s": 2}
MESH = "rows:2,cols:3"


class State(NamedTuple):
    """What a scenario does with a dimension.

    Attributes:
      factors: the factors of "ab" that have it.
      kept: whether the results of functions that sum have it.
      split: the mesh dimension that splits it, or "".
    """

    factors: str
    kept: bool
    split: str


ABSENT = State("", False, "")
STATES = [
    ABSENT,
    *(
        State(factors, kept, split)
        for factors, kept, split in itertools.product(("a", "b", "ab", ""), (True, False), ("rows", "cols", ""))
        if factors or kept
    ),
]


@dataclasses.dataclass(frozen=True)
class Scenario:
    """The states of the dimensions in `SIZES`, and the number of the scenario, which varies orders of dimensions."""

    states: tuple[State, ...]
    number: int

    def __str__(self):
        words = [
            f"{dim}:{s.factors or 'new' * s.kept or 'absent'}{'' if s.kept else '-'}{'/' * bool(s.split)}{s.split}"
            for dim, s in zip(SIZES, self.states)
        ]
        return " ".join(words)

    @property
    def layout(self):
        return ",".join(f"{dim}:{state.split}" for dim, state in zip(SIZES, self.states) if state.split)

    def kept(self, function):
        """Returns the dimensions over which a function does not sum."""
        states = zip(SIZES, self.states)
        return self._turned([dim for dim, state in states if state.kept or (function.whole and state.split)], 1)

    def dims(self, factor):
        """Returns the dimensions of a factor, in an order that differs between factors and scenarios."""
        if factor == "c":  # has some dimensions, and those that are split and in no other factor
            states = enumerate(zip(SIZES, self.states))
            return [d for i, (d, s) in states if (5 * self.number + 3 >> i) % 2 or (s.split and not s.factors)]
        dims = [dim for dim, state in zip(SIZES, self.states) if factor in state.factors]
        return self._turned(dims, "ab".index(factor))

    def _turned(self, dims, turns):
        turns = (self.number + turns) % 3
        return dims[turns:] + dims[:turns]


def _are_legal(states):
    splits = [state.split for state in states if state.split]
    return len(splits) == len(set(splits))


def pairs_of(states):
    """Returns the pairs of states, as a dict without values, which keeps their order."""
    pairs = itertools.combinations(states, 2)
    return dict.fromkeys(tuple(sorted(pair)) for pair in pairs)


def legal_pairs():
    """Returns the pairs of states that two dimensions can have; those of two splits come first."""
    pairs = [pair for pair in pairs_of([*STATES, *STATES]) if _are_legal(pair)]
    return dict.fromkeys(sorted(pairs, key=lambda pair: -sum(bool(state.split) for state in pair)))


def _scenarios():
    """Returns scenarios in which every legal pair of states occurs."""
    scenarios, missing = [], legal_pairs()
    while missing:
        states = list(next(iter(missing)))
        while len(states) < len(SIZES):
            choice = [state for state in STATES if _are_legal([*states, state])]
            states.append(max(choice, key=lambda state: len(pairs_of([*states, state]).keys() & missing.keys())))
        missing = {pair: None for pair in missing if pair not in pairs_of(states)}
        turns = len(scenarios) % len(states)
        scenarios.append(Scenario((*states[turns:], *states[:turns]), len(scenarios)))
    return scenarios


SCENARIOS = _scenarios()
_SPLIT = {onto: [state for state in STATES if state.split == onto] for onto in ("rows", "cols")}
TURNS = len(_SPLIT["rows"])


def turn(scenario):
    """Returns a number below `TURNS`; the scenarios of a turn have each state of a split dimension once per split."""
    places = [_SPLIT[state.split].index(state) for state in scenario.states if state.split]
    return sum(places) % TURNS


@dataclasses.dataclass(frozen=True, eq=False)
class Function:
    """A function of several factors.

    Attributes:
      name: its name in `mtf`, with details in parentheses.
      fn: a function of `factors` as `mtf.Tensor`s, and of the dimensions to keep.
      reference: the same function of TensorFlow tensors that have all dimensions of `SIZES`, of size 1 if the factor
        lacks them, and of the positions of the dimensions to sum over, which remain with size 1.
      factors: the names of the factors.
      whole: whether the function only sums over dimensions that are not split.
    """

    name: str
    fn: Callable
    reference: Callable
    factors: str = "ab"
    whole: bool = False

    def __str__(self):
        return self.name

    @property
    def public_name(self):
        """The name in `mtf`."""
        return self.name.partition(" (")[0]


def aligned(value, dims, full=tuple(SIZES)):
    """Transposes a tensor with dimensions `dims` to the order `full`, with size 1 for absent dimensions."""
    value = tf.transpose(value, [dims.index(dim) for dim in full if dim in dims])
    sizes = iter(value.shape)
    return tf.reshape(value, [next(sizes) if dim in dims else 1 for dim in full])


def _binary(name, reference=None):
    function, reference = getattr(mtf, name), reference or getattr(tf.math, name)
    return Function(name, lambda a, b, kept: function(a, b), lambda a, b, axes: reference(a, b))


def _comparison(name):
    """A function with a boolean result, which chooses voxels of the third factor."""
    function, reference = getattr(mtf, name), getattr(tf.math, name)
    return Function(
        name,
        lambda a, b, c, kept: c * mtf.cast(function(a, b), c.dtype),
        lambda a, b, c, axes: c * tf.cast(reference(a, b), c.dtype),
        "abc",
    )


def _logical(name):
    function, reference = getattr(mtf, name), getattr(tf.math, name)
    return Function(
        name,
        lambda a, b, c, kept: c * mtf.cast(function(mtf.greater(a, 1.2), mtf.less(b, 1.4)), c.dtype),
        lambda a, b, c, axes: c * tf.cast(reference(a > 1.2, b < 1.4), c.dtype),
        "abc",
    )


def _of_integers(name, reference):
    """A function of integers, which have no gradient."""
    function = getattr(mtf, name)
    return Function(
        name,
        lambda a, b, c, kept: c * mtf.cast(function(mtf.to_int32(9 * a), mtf.to_int32(9 * b)), c.dtype),
        lambda a, b, c, axes: c * tf.cast(reference(tf.cast(9 * a, tf.int32), tf.cast(9 * b, tf.int32)), c.dtype),
        "abc",
    )


def _kept_of(a, kept):
    return Shape([dim for dim in a.shape.dims if dim in kept])


def _reduction(name):
    function, reference = getattr(mtf, name), getattr(tf, name)
    return Function(
        name,
        lambda a, kept: function(a, output_shape=_kept_of(a, kept)),
        lambda a, axes: reference(a, axes, keepdims=True),
        "a",
    )


def _boolean_reduction(name, least):
    function, reference = getattr(mtf, name), getattr(tf, name)
    return Function(
        name,
        lambda a, b, kept: b * mtf.cast(function(mtf.greater(a, least), output_shape=_kept_of(a, kept)), b.dtype),
        lambda a, b, axes: b * tf.cast(reference(a > least, axes, keepdims=True), b.dtype),
    )


def _called_by_slice(call, *factors, kept):
    """Calls `call(tf_fn, output shape)` with a function of slices that sums over the dimensions to sum over."""
    dims = list(dict.fromkeys(dim for x in factors for dim in x.shape.dims))
    summed = [place for place, dim in enumerate(dims) if dim not in kept]

    def tf_fn(*slices):
        full = [aligned(each, x.shape.dims, dims) for each, x in zip(slices, factors, strict=True)]
        return tf.reduce_sum(_smooth(*full), summed)

    return call(tf_fn, Shape([dim for dim in dims if dim in kept]))


def _smooth(a, b):
    return tf.sinh(a) * b * b


def _slicewise(a, b, kept):
    return _called_by_slice(
        lambda fn, shape: mtf.slicewise(fn, [a, b], shape, splittable_dims=shape.dims), a, b, kept=kept
    )


def _cwise(a, b, kept):
    """Calls `cwise` with a first factor that has all dimensions."""
    dims = list(dict.fromkeys(a.shape.dims + b.shape.dims))
    return _called_by_slice(
        lambda fn, _: mtf.cwise(fn, [mtf.broadcast(a, Shape(dims)), b]),
        *(mtf.broadcast(a, Shape(dims)), b),
        kept=dims,
    )


def _recomputed(a, b, kept):
    return mtf.recompute_grad(lambda u, v: mtf.einsum([u * v, v], output_shape=kept), [a, b])


def _custom(a, b, kept):
    """The product of two factors, with twice its gradients."""

    def gradient(explicit_inputs, all_inputs, forward_operations, outputs, output_grads):
        del explicit_inputs, forward_operations, outputs
        (dy,), (u, v) = output_grads, all_inputs
        return [2 * mtf.einsum([dy, v], output_shape=u.shape), 2 * mtf.einsum([dy, u], output_shape=v.shape)]

    return mtf.custom_gradient(lambda u, v: mtf.multiply(u, v), gradient, [a, b])


FUNCTIONS = (
    *map(_binary, ["add", "divide", "maximum", "minimum", "multiply"]),
    _binary("sub", tf.subtract),
    *map(_comparison, ["equal", "greater", "greater_equal", "less", "less_equal", "not_equal"]),
    *map(_logical, ["logical_and", "logical_or"]),
    _of_integers("floordiv", tf.math.floordiv),
    _of_integers("mod", tf.math.floormod),
    Function("add_n", lambda a, b, c, kept: mtf.add_n([a, b, c]), lambda a, b, c, axes: a + b + c, "abc"),
    Function(
        "where",
        lambda a, b, c, kept: mtf.where(mtf.greater(a, 1.2), b, c),
        lambda a, b, c, axes: tf.where(a > 1.2, b, c),
        "abc",
    ),
    Function(
        "where (of the condition's factor)",
        lambda a, b, kept: mtf.where(mtf.greater(a, 1.2), a, b),
        lambda a, b, axes: tf.where(a > 1.2, a, b),
    ),
    Function(
        "binary_op_with_broadcasting",
        lambda a, b, c, kept: c * mtf.binary_op_with_broadcasting(tf.math.atan2, *map(mtf.stop_gradient, [a, b])),
        lambda a, b, c, axes: c * tf.stop_gradient(tf.math.atan2(a, b)),
        "abc",
    ),
    Function(
        "broadcast",
        lambda a, b, kept: mtf.broadcast(
            a, Shape([*(d for d in b.shape.dims if d not in a.shape.dims), *a.shape.dims])
        ),
        lambda a, b, axes: a + 0 * b,
    ),
    *map(_reduction, ["reduce_max", "reduce_mean", "reduce_min", "reduce_sum"]),
    _boolean_reduction("reduce_all", 0.7),
    _boolean_reduction("reduce_any", 1.8),
    Function(
        "einsum",
        lambda a, b, kept: mtf.einsum([a, b], output_shape=kept),
        lambda a, b, axes: tf.reduce_sum(a * b, axes, keepdims=True),
    ),
    Function(
        "einsum (of one factor)",
        lambda a, kept: mtf.einsum([a], output_shape=kept),
        lambda a, axes: tf.reduce_sum(a, axes, keepdims=True),
        "a",
    ),
    Function(
        "einsum (of three factors)",
        lambda a, b, c, kept: mtf.einsum([a, b, c], output_shape=kept),
        lambda a, b, c, axes: tf.reduce_sum(a * b * c, axes, keepdims=True),
        "abc",
    ),
    Function(
        "matmul",
        lambda a, b, kept: mtf.matmul(b, a, output_shape=kept),
        lambda a, b, axes: tf.reduce_sum(a * b, axes, keepdims=True),
    ),
    Function("recompute_grad", _recomputed, lambda a, b, axes: tf.reduce_sum(a * b * b, axes, keepdims=True)),
    Function("custom_gradient", _custom, lambda a, b, axes: 2 * a * b - tf.stop_gradient(a * b)),
)
# These are differentiated by TensorFlow, in a graph.
FUNCTIONS_OF_SLICES = (
    Function("slicewise", _slicewise, lambda a, b, axes: tf.reduce_sum(_smooth(a, b), axes, keepdims=True), whole=True),
    Function("cwise", _cwise, lambda a, b, axes: _smooth(a, b)),
    Function("pow", lambda a, b, kept: a**b, lambda a, b, axes: a**b),
)
