"""The parameters of networks, tasks and optimizers, which are checked by their types and bounds."""

import dataclasses
import itertools
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
      choices: all values that are allowed, instead of a type; of a tuple, its elements.
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
    if not fits(value, kind, bounds):
        raise ConfigError(f"{name} = {value!r}: it must be {rule(kind, bounds)}.", settings)


def _as_tuples(value: object) -> object:
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple | range) else value


def fits(value: Any, kind: Any, bounds: Bounds) -> bool:
    """Returns whether a value has a type and is within bounds. Lists and ranges count as tuples."""
    value = _as_tuples(value)
    if bounds.choices and not is_sequence(kind):
        return any(type(value) is type(choice) and value == choice for choice in bounds.choices)
    if bounds.example:
        return value is not None and all(hasattr(value, name) for name in bounds.offers)
    if kind is Any:
        return True
    if isinstance(kind, types.UnionType):
        return any(fits(value, each, bounds) for each in kind.__args__)
    if kind in (int, float):
        is_number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
        return is_number and _is_within(value, kind, bounds)
    if is_sequence(kind):
        is_tuple = isinstance(value, tuple) and (len(value) > 0 or bounds.can_be_empty)
        kinds = _element_kinds(kind)
        if not is_tuple or len(kinds) not in (1, len(value)):
            return False
        return all(fits(each, own, bounds) for each, own in zip(value, itertools.cycle(kinds)))
    return isinstance(value, typing.get_origin(kind) or kind)


def _is_within(value: float, kind: type, bounds: Bounds) -> bool:
    is_large = value >= bounds.least if bounds.least is not None else value >= 1 if kind is int else value > 0
    return math.isfinite(value) and is_large and value <= bounds.most and value < bounds.below


def rule(kind: object, bounds: Bounds) -> str:
    """Returns a description of the values that are allowed."""
    if bounds.choices and not is_sequence(kind):
        return f"one of {', '.join(map(repr, bounds.choices))}"
    if bounds.example:
        return " with ".join(filter(None, [f"an object such as {bounds.example}", " and ".join(bounds.offers)]))
    if isinstance(kind, types.UnionType):
        return ", or ".join(rule(each, bounds) for each in kind.__args__)
    if kind in (int, float):
        if bounds.least == bounds.most:
            return f"{bounds.most:g}"
        least = bounds.least if bounds.least is not None else 1 if kind is int else None
        limits = ["above 0"] if least is None else [f"of at least {least}"] * (least > -math.inf)
        limits += [f"at most {bounds.most}"] * (bounds.most < math.inf)
        limits += [f"below {bounds.below}"] * (bounds.below < math.inf)
        return f"{'an int' if kind is int else 'a number'} {' and '.join(limits)}".strip()
    if is_sequence(kind):
        kinds = _element_kinds(kind)
        if len({*kinds}) > 1:
            return f"a tuple of {' and '.join(rule(each, bounds) for each in kinds)}"
        of_length = f" of {len(kinds)} elements" if len(kinds) > 1 else ""
        return f"a tuple{of_length} in which each element is {rule(kinds[0], bounds)}"
    words = {type(None): "None", bool: "True or False", str: "a string", Callable: "a function"}
    return words.get(kind) or f"of class {getattr(kind, '__name__', kind)}"


def is_sequence(kind: object) -> bool:
    """Returns whether a type is that of tuples or sequences."""
    return typing.get_origin(kind) in (tuple, Sequence)


def _element_kinds(kind: object) -> tuple[Any, ...]:
    """Returns the types of the elements of a tuple; one type stands for any number of elements."""
    return tuple(own for own in typing.get_args(kind) if own is not ...)
