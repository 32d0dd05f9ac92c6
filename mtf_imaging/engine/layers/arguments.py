"""What the arguments of layers may be: a layer checks them once, when it is created."""

import operator
import re
from collections.abc import Callable, Collection
from typing import NamedTuple, TypeVar

import numpy as np

from mtf_imaging.engine.layers.activation import ACTIVATIONS
from mtf_imaging.engine.layers.weights import INITIALIZERS
from mtf_imaging.errors import ConfigError
from mtf_imaging.spelling import did_you_mean

T = TypeVar("T")


class _Kind(NamedTuple):
    """A kind of argument.

    Attributes:
      needed: what the argument must be, for error messages.
      fix: how to repair it.
      converted: a function that returns the argument as layers use it, and raises TypeError or ValueError if it is not
        of this kind.
      names: the names that the argument may be instead.
    """

    needed: str
    fix: str
    converted: Callable
    names: Collection[str] = ()


def _valid(is_valid: Callable[..., bool]) -> Callable:
    """Returns a function that returns a valid argument, and otherwise raises ValueError."""

    def converted(value: object) -> object:
        if not is_valid(value):
            raise ValueError
        return value

    return converted


def _count(value: object) -> int:
    return int(_valid(lambda n: not isinstance(n, bool) and operator.index(n) >= 1)(value))


def _counts(value: object) -> int | tuple[int, ...]:
    if isinstance(value, tuple | list):
        return tuple(map(_count, _valid(lambda sizes: 1 <= len(sizes) <= 3)(value)))
    return _count(value)


def _is_text(pattern: str) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


_COUNT = _Kind("a positive integer", "use an integer of at least 1", _count)
_COUNTS = _Kind(_COUNT.needed, f"{_COUNT.fix}, or one for each of 1 to 3 spatial dimensions", _counts)

ARGUMENTS = {
    **dict.fromkeys(("filters", "units", "groups", "depth_multiplier"), _COUNT),
    **dict.fromkeys(("kernel_size", "strides", "dilation", "output_sizes", "factor"), _COUNTS),
    "activation": _Kind("a function", "use a function", _valid(callable), ACTIVATIONS),
    "shortcut": _Kind("a layer or a function", "use a layer or a function", _valid(callable)),
    "kernel_initializer": _Kind(
        "a TensorFlow initializer", "use a TensorFlow initializer", _valid(callable), INITIALIZERS
    ),
    "bias_initializer": _Kind(
        "an initializer",
        "use a number, a number for each filter, or an initializer of TensorFlow; use_bias=False omits the bias",
        _valid(lambda value: callable(value) or np.asarray(value).dtype.kind in "iuf"),
        INITIALIZERS,
    ),
    "output_name": _Kind(
        "a name for a dimension",
        "use letters, digits and '_', such as output_name='classes'",
        _valid(lambda value: isinstance(value, str) and value.isidentifier()),
    ),
    # the names that `tf.compat.v1.variable_scope` accepts
    "name": _Kind(
        "a name for variables",
        "use letters, digits, '_', '-', '.' and '/', and begin with a letter or a digit",
        _valid(_is_text(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")),
    ),
    "kind": _Kind("a kind of norm", "use a name", _valid(lambda _: False), ("instance", "batch", "group", "layer")),
    "method": _Kind("a method", "use a name", _valid(lambda _: False), ("nearest", "linear")),
}


def checked(title: str, name: str, value: T) -> T:
    """Returns an argument of a layer, with sizes as ints and tuples of ints.

    Args:
      title: the layer, for error messages.
      name: a key of `ARGUMENTS`.
      value: the argument.

    Raises:
      ConfigError: the argument is not what `ARGUMENTS` says.
    """
    needed, fix, converted, names = ARGUMENTS[name]
    choices = ", ".join(map(repr, names))
    if names and isinstance(value, str):
        if value in names:
            return value
        hint = did_you_mean(value, names)
        raise ConfigError(f"{title}: {name} = {value!r} is not known.{hint} Fix: choose one of {choices}.")
    try:
        return converted(value)
    except (TypeError, ValueError) as error:
        fix = f"{fix}, or one of {choices}" if names and ";" not in fix else fix
        raise ConfigError(f"{title}: {name} = {value!r} is not {needed}. Fix: {fix}.") from error
