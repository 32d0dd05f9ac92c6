"""Operations whose results are arguments of the functions in `functions.py`: the producers."""

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.engine.layout import parse_shape
from tests.engine.ops.differentiated import PLANE, ROWS
from tests.engine.upstream.functions import FUNCTIONS, axis_of

mtf = mi.mtf

# The functions of `mtf` that rearrange, combine or repeat elements; a sample of the elementwise functions.
_NAMES = (
    *("broadcast", "concat", "cumsum", "cwise", "depend", "divide", "einsum", "gather", "halo_exchange", "log_softmax"),
    *(
        "leaky_relu",
        "maximum",
        "pad",
        "recompute_grad",
        "reduce_max",
        "reduce_mean",
        "reduce_sum",
        "reduce_sum (of all)",
    ),
    *("rename_dimension", "reshape", "shift", "sin", "slice", "softmax", "split", "stack", "top_k", "transpose"),
    *("unstack", "where"),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Producer:
    """An operation whose result is an argument of functions.

    Attributes:
      name: the name of the operation.
      fn: a function of mtf tensors, with the names of `shapes`, that returns an mtf tensor.
      reference: a function of TensorFlow tensors, in the order of `shapes` and `variables`.
      shapes: {name: shape} of the inputs. The inputs in `CONSTANTS` have no gradients.
      variables: {variable: number of its values}
    """

    name: str
    fn: Callable
    reference: Callable
    shapes: dict
    variables: dict = dataclasses.field(default_factory=dict)

    def __str__(self):
        return self.name

    def values(self):
        """Returns {name: value} of all inputs and variables; the first one is differentiated twice."""
        for row in ROWS:
            if str(row) == self.name:
                return row.values()
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        sizes = {name: [size for _, size in parse_shape(shape)] for name, shape in self.shapes.items()}
        return {name: rng.standard_normal(shape) for name, shape in [*sizes.items(), *self.variables.items()]}


def _variable(x):
    """Returns a variable of ones with the shape of an input."""
    variable = mtf.get_variable(x.mesh, "variable", x.shape, dtype=x.dtype, initializer=tf.ones_initializer())
    return mtf.depend(variable, [x])


def _from_functions():
    """Yields the functions of `_NAMES` as producers."""
    functions = {function.name: function for function in FUNCTIONS}
    for name in _NAMES:
        function = functions[name]
        place = axis_of(parse_shape(PLANE))
        yield Producer(
            *(f"mtf.{name}", lambda x, own=function: own.fn(x)),
            *(lambda v, own=function, place=place: own.reference(v, place), {"x": PLANE}),
        )


def _from_rows():
    """Yields the first row of every operation of `mi.ops` as a producer."""
    first = {}
    for row in ROWS:
        first.setdefault(row.op, row)
    for row in first.values():
        yield Producer(str(row), row.fn, row.reference, row.shapes, row.variables)


PRODUCERS = (
    Producer("an input", lambda x: x, tf.identity, {"x": PLANE}),
    Producer(
        "a variable", _variable, lambda v, variable: tf.identity(variable), {"x": PLANE}, {"variable": (2, 8, 4, 4)}
    ),
    *_from_functions(),
    *_from_rows(),
)
