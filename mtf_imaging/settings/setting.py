"""A setting is a field of a dataclass, with a type, a default, a unit and a meaning.

Everything else that refers to a setting is derived from its field: the keyword argument of a job and its documentation
(`takes`), its check (`Settings`), the values that several processes must share (`agreed`), and, on the command line,
the flag, the gin parameter, their help, and the name in messages.

    @settings
    class Lengths(Settings):
        \"""The length of a training run.

        Attributes:
          num_steps: number of steps.
        \"""

        num_steps: int = setting(default=1000, unit="steps", least=1, flag=True)
"""

import dataclasses
import functools
import inspect
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar, dataclass_transform

from mtf_imaging.errors import ConfigError
from mtf_imaging.parameters import Bounds, fits, is_sequence, rule
from mtf_imaging.settings.docstrings import parameter_meanings
from mtf_imaging.spelling import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
_KEY = "setting"
_NAMES = re.compile(r"`(\w+)`")


class Setting(NamedTuple):
    """A setting of a class, as callers see it.

    Attributes:
      name: the name of the field and of the keyword argument.
      type: the annotation of the field.
      default: the default; `dataclasses.MISSING` if a value is required.
      meaning: its description in the docstring of the class. Names of other settings are in backticks.
      unit: the unit of a number, such as "mm".
      least, most: the smallest and the largest number that are allowed.
      above: 0 for numbers above 0.
      choices: the strings that are allowed.
      needs: the setting without which this one has no effect; "" for none.
      flag: the name of its flag; "" for none.
      example: a value in gin's syntax for messages about a setting without a flag.
      shared: whether all processes of a program must have the same value.
      recorded: whether `run.json` contains the value that a run used, which `config.gin` then repeats.
    """

    name: str
    type: Any
    default: object
    meaning: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    needs: str = ""
    flag: str = ""
    example: str = ""
    shared: bool = True
    recorded: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types of a value, without None."""
        is_union = typing.get_origin(self.type) in (typing.Union, types.UnionType)
        return tuple(
            kind for kind in (typing.get_args(self.type) if is_union else [self.type]) if kind is not type(None)
        )

    def is_default(self, value: object) -> bool:
        """Returns whether a value is the default, or None. Callers and gin write lists and tuples."""
        return value is None or (tuple(value) if isinstance(value, list) else value) == self.default

    @property
    def checked_type(self) -> Any:
        """The type if it is a bool, a number or a sequence of numbers; else None, and other code checks a value."""
        items = [item for kind in self.kinds for item in typing.get_args(kind)[:1] if item in (int, float)]
        has_others = any(not typing.get_args(kind) and not (kind is str and self.choices) for kind in self.kinds)
        if items and not has_others:
            return Sequence[items[0]]  # type: ignore[valid-type]
        if self.kinds == (bool,):
            return bool
        return (float if float in self.kinds else int) if {*self.kinds} <= {int, float} else None

    @property
    def bounds(self) -> Bounds:
        """The bounds of a number."""
        is_unbounded = self.least is None and self.above is None
        return Bounds(-math.inf if is_unbounded else self.least, math.inf if self.most is None else self.most)

    def sentences(self, spell: Callable[[str], str] = lambda name: f"`{name}`") -> str:
        """Returns the meaning as sentences.

        Args:
          spell: a function that returns the caller's name for another setting.
        """
        return self.capitalized(_NAMES.sub(lambda match: spell(match[1]), self.meaning))

    def capitalized(self, text: str) -> str:
        """Capitalizes the first letter, except of a choice or a file name."""
        first = text.split()[0].rstrip(":")
        if first in (self.choices or ()) or "." in first:
            return text
        return text[:1].upper() + text[1:]


def setting(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    flag: bool | str = False,
    **facts: object,
) -> Any:
    """Declares a field of a settings class. The class docstring contains its meaning.

    Args:
      default: the default; without it, a value is required.
      default_factory: a function that returns the default.
      flag: whether the setting has a flag, or the name of a flag that differs from the setting name.
      **facts: other attributes of `Setting`.
    """
    return dataclasses.field(default=default, default_factory=default_factory, metadata={_KEY: {"flag": flag, **facts}})


def changed(owner: type, name: str, **facts: object) -> Any:
    """Redeclares a setting of another class, with the same meaning unless the docstring contains a new one.

    Args:
      owner: the other class.
      name: the setting name.
      **facts: arguments of `setting` that differ.
    """
    (field,) = (field for field in dataclasses.fields(owner) if field.name == name)
    kept = {"default": field.default, "default_factory": field.default_factory}
    return setting(**kept | field.metadata[_KEY] | {"declared": (owner, name)} | facts)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting, dataclasses.field))
def settings(cls: type[S]) -> type[S]:
    """Makes a class a frozen dataclass with keyword arguments."""
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def documented(cls: type[S]) -> type[S]:
    """Adds the meanings of all settings of a dataclass, including inherited ones, to its docstring."""
    cls.__doc__ = _with_section(cls.__doc__ or "", "Attributes", settings_of(cls))
    return cls


def settings_of(cls: type) -> list[Setting]:
    """Returns the settings of a dataclass: required ones first, then inherited ones, then its own.

    Fields not declared with `setting` are left out.
    """
    first_declared: dict[str, tuple[int, int]] = {}
    for place, owner in enumerate([cls, *cls.__mro__[1:]]):
        declared = enumerate(vars(owner).get("__annotations__", {}))
        first_declared |= {name: (place or len(cls.__mro__), number) for number, name in declared}
    return sorted(_settings_of(cls), key=lambda one: (not one.is_required, first_declared[one.name]))


def _settings_of(cls: type) -> Iterator[Setting]:
    meanings = parameter_meanings(cls)
    for field in dataclasses.fields(cls):
        if own := dict(field.metadata.get(_KEY, {})):
            owner, name = own.pop("declared", (cls, field.name))
            meaning = own.pop("meaning", "") or meanings.get(field.name, "")
            if not meaning and sys.flags.optimize < 2:  # python -OO removes docstrings
                meaning = parameter_meanings(owner)[name]
            default = field.default
            if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
                default = None  # created for each object
            own["flag"] = field.name if own["flag"] is True else own["flag"] or ""
            yield Setting(field.name, field.type, default, meaning, **own)


@dataclasses.dataclass(frozen=True)
class Settings:
    """A base class for settings classes, which checks their values."""

    def __post_init__(self) -> None:
        for one in settings_of(type(self)):
            value = getattr(self, one.name)
            check_value(one, value)
            if one.needs and not one.is_default(value) and getattr(self, one.needs) is None:
                raise ConfigError(
                    f"{one.name} = {value!r} has no effect without {one.needs}. Fix: give both, or leave it out.",
                    [one.name, one.needs],
                )


def check_value(one: Setting, value: object) -> None:
    """Checks a value of a setting: its type, its bounds and its choices.

    The type of a setting that also takes text, or other objects than numbers, is left to the code that parses it.

    Raises:
      ConfigError: the setting does not allow the value.
    """
    if value is None:
        return
    kind, is_text = one.checked_type, isinstance(value, str)
    if one.choices and (is_text or not is_sequence(kind)):
        for item in [value] if is_text or not isinstance(value, Sequence) else value:
            check_choice(one.name, item, one.choices)
    elif kind is not None and not fits(value, kind, one.bounds):
        raise ConfigError(f"{one.name} must be {rule(kind, one.bounds)}, not {value!r}.", [one.name])


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raises ConfigError unless the value of a setting is one of its choices."""
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        raise ConfigError(f"{name} = {value!r} is not known.{hint} Fix: choose one of {', '.join(choices)}.", [name])


def values_of(owner: type, *sources: object, **known: object) -> dict[str, Any]:
    """Returns the keyword arguments for a settings class.

    Args:
      owner: the class.
      *sources: objects whose attributes have the names of settings; the first one with a name counts.
      **known: values that take precedence over the sources.
    """
    found = {}
    for one in settings_of(owner):
        holders = [source for source in sources if hasattr(source, one.name)]
        if one.name in known or holders:
            found[one.name] = known[one.name] if one.name in known else getattr(holders[0], one.name)
    return found


def agreed(values: object) -> dict[str, Any]:
    """Returns the values of the settings that all processes of a program must share, by name."""
    return {one.name: getattr(values, one.name) for one in settings_of(type(values)) if one.shared}


def filled(owner: Callable[..., S], *sources: object, **known: object) -> S:
    """Returns an object of a settings class; see `values_of`."""
    return owner(**values_of(typing.cast(type, owner), *sources, **known))


def takes(
    owner: Callable[P, S], more: Callable[[type], type] = lambda cls: cls
) -> Callable[[Callable[[S], R]], Callable[P, R]]:
    """Converts a function of a settings object to a function of keyword arguments, with signature and docstring.

    Args:
      owner: the settings class.
      more: returns the settings class with settings that are added later.

    Returns:
      A decorator for a function with one argument, an instance of this class.
    """

    def decorate(function: Callable[[S], R]) -> Callable[P, R]:
        listed = settings_of(typing.cast(type, owner))
        returns = inspect.signature(function).return_annotation

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            cls = more(typing.cast(type, owner))
            try:
                _signature(cls, returns).bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(cls(*args, **kwargs))

        del call.__wrapped__  # its signature has changed
        call.__signature__ = _signature(typing.cast(type, owner), returns)  # type: ignore[attr-defined]
        call.__doc__ = _with_section(function.__doc__ or "", "Args", listed)
        call.__annotations__ = {one.name: one.type for one in listed} | {"return": returns}
        return call

    return decorate


def _signature(cls: type, returns: object) -> inspect.Signature:
    """Returns the signature of a function with the settings of a class as keyword arguments."""
    parameters = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.is_required else one.default,
            annotation=one.type,
        )
        for one in settings_of(cls)
    ]
    return inspect.Signature(parameters, return_annotation=returns)


def _with_section(doc: str, title: str, listed: list[Setting]) -> str:
    """Adds a section about settings to a docstring, before the sections about the result and errors."""
    section = "\n".join([f"{title}:", *(f"  {one.name}: {one.meaning}" for one in listed)])
    text = inspect.cleandoc(doc)
    text = re.sub(rf"^{title}:\n(?:(?:  .*)?\n)*", "", f"{text}\n", flags=re.MULTILINE).rstrip()
    match = re.search(r"^(Returns|Raises|Yields):$", text, re.MULTILINE)
    if match is None:
        return f"{text}\n\n{section}\n"
    return f"{text[: match.start()]}{section}\n\n{text[match.start() :]}"
