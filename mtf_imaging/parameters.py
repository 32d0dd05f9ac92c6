"""The parameters of networks, tasks and optimizers, which are checked by their types and bounds."""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

from mtf_imaging.errors import ConfigError

_BOUNDS = "bounds"


class Bounds(NamedTuple):
    """The values that a parameter accepts, in addition to its type.

    Attributes:
      least: the smallest number. By default, an int is at least 1, and a float is above 0.
      most: the largest number.
      below: a number that all values are below.
      choices: all values that are allowed, instead of a type.
      offers: the attributes that an object must have, instead of a type.
      example: the name of a class that has these attributes.
      can_be_empty: whether a tuple may have no elements. The other bounds of a tuple apply to its elements.
    """

    least: float | None = None
    most: float = math.inf
    below: float = math.inf
    choices: tuple[Any, ...] = ()
    offers: tuple[str, ...] = ()
    example: str = ""
    can_be_empty: bool = False


def parameter(default: Any, **bounds: Any) -> Any:
    """Declares a parameter with a default and `Bounds`, as a field of a dataclass."""
    return dataclasses.field(default=default, metadata={_BOUNDS: Bounds(**bounds)})


def check_parameters(owner: Any) -> None:
    """Checks the fields of a dataclass, and converts the lists of gin files to tuples.

    Args:
      owner: an instance of a dataclass.

    Raises:
      ConfigError: a parameter has another type, or is out of its bounds.
    """
    for field in dataclasses.fields(owner):
        if field.init:
            value, name = _as_tuples(getattr(owner, field.name)), f"{type(owner).__name__}.{field.name}"
            _check(name, value, field.type, field.metadata.get(_BOUNDS, Bounds()))
            object.__setattr__(owner, field.name, value)  # the dataclass may be frozen


def check_value(name: str, value: object, kind: Any, settings: Iterable[str] = (), **bounds: Any) -> None:
    """Checks a value that is not a field of a dataclass.

    Args:
      name: the name in the message, such as "SGD.weight_decay".
      value: the value.
      kind: its type, such as `float | None`.
      settings: the settings of the message; see `MtfImagingError`.
      **bounds: arguments of `Bounds`.

    Raises:
      ConfigError: the value has another type, or is out of its bounds.
    """
    _check(name, value, kind, Bounds(**bounds), settings)


def _check(name: str, value: object, kind: object, bounds: Bounds, settings: Iterable[str] = ()) -> None:
    if not _fits(_as_tuples(value), kind, bounds):
        raise ConfigError(f"{name} = {value!r}: it must be {_rule(kind, bounds)}.", settings)


def _as_tuples(value: object) -> object:
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value


def _fits(value: Any, kind: Any, bounds: Bounds) -> bool:
    """Returns whether a value has a type and is within bounds."""
    if bounds.choices:
        return any(type(value) is type(choice) and value == choice for choice in bounds.choices)
    if bounds.example:
        return value is not None and all(hasattr(value, name) for name in bounds.offers)
    if kind is Any:
        return True
    if isinstance(kind, types.UnionType):
        return any(_fits(value, each, bounds) for each in kind.__args__)
    if kind in (int, float):
        is_number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        return is_number and _is_within(value, kind, bounds)
    if _is_sequence(kind):
        is_tuple = isinstance(value, tuple) and (len(value) > 0 or bounds.can_be_empty)
        return is_tuple and all(_fits(each, typing.get_args(kind)[0], bounds) for each in value)
    return isinstance(value, typing.get_origin(kind) or kind)


def _is_within(value: float, kind: type, bounds: Bounds) -> bool:
    is_large = value >= bounds.least if bounds.least is not None else value >= 1 if kind is int else value > 0
    return is_large and value <= bounds.most and value < bounds.below


def _rule(kind: object, bounds: Bounds) -> str:
    """Returns a description of the values that are allowed."""
    if bounds.choices:
        return f"one of {', '.join(map(repr, bounds.choices))}"
    if bounds.example:
        return " with ".join(filter(None, [f"an object such as {bounds.example}", " and ".join(bounds.offers)]))
    if isinstance(kind, types.UnionType):
        return ", or ".join(_rule(each, bounds) for each in kind.__args__)
    if kind in (int, float):
        least = bounds.least if bounds.least is not None else 1 if kind is int else None
        limits = ["above 0"] if least is None else [f"of at least {least}"] * (least > -math.inf)
        limits += [f"at most {bounds.most}"] * (bounds.most < math.inf)
        limits += [f"below {bounds.below}"] * (bounds.below < math.inf)
        return f"{'an int' if kind is int else 'a number'} {' and '.join(limits)}".strip()
    if _is_sequence(kind):
        return f"a tuple in which each element is {_rule(typing.get_args(kind)[0], bounds)}"
    words = {type(None): "None", bool: "True or False", str: "a string", Callable: "a function"}
    return words.get(kind) or f"of class {getattr(kind, '__name__', kind)}"


def _is_sequence(kind: object) -> bool:
    return typing.get_origin(kind) in (tuple, Sequence)
