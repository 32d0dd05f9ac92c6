"""A setting is a field of a dataclass, with a type, a default, a unit and a meaning.

Everything else that names a setting is derived from its field: the keyword argument of a job and its documentation
(`takes`), its check (`Settings`), what several processes must agree on (`agreed`), and, in the command line, the flag,
the gin parameter, their help, and what messages call it.

    @settings
    class Lengths(Settings):
        num_steps: int = setting("number of steps", default=1000, least=1, flag=True)
"""

import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar, dataclass_transform

from mtf_imaging.errors import ConfigError
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
      meaning: one or more sentences, the first of which begins in lower case. Names of settings are in backticks.
      unit: the unit of a number, such as "mm".
      least: the smallest integer that is allowed.
      choices: the strings that are allowed.
      flag: the name of its flag; "" for none.
      example: a value in gin's syntax for messages about a setting without a flag.
      shared: whether all processes of a program must have the same value.
      recorded: whether `run.json` contains the value that a run used, which `config.gin` then repeats.
    """

    name: str
    type: Any
    default: Any
    meaning: str
    unit: str = ""
    least: int | None = None
    choices: tuple[str, ...] = ()
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

    def sentences(self, spell: Callable[[str], str] = lambda name: f"`{name}`") -> str:
        """Returns the meaning as sentences.

        Args:
          spell: returns how the caller names another setting.
        """
        text = _NAMES.sub(lambda match: spell(match[1]), self.meaning)
        return text[:1].upper() + text[1:] + "." * (not text.endswith("."))


def setting(
    meaning: str,
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    flag: bool | str = False,
    **facts: Any,
) -> Any:
    """Declares a field of a class of settings.

    Args:
      meaning: see `Setting`.
      default: the default; without it, a value is required.
      default_factory: a function that returns the default.
      flag: whether the setting has a flag, or the name of a flag that differs from the name of the setting.
      **facts: other attributes of `Setting`.
    """
    own = {"meaning": meaning, "flag": flag, **facts}
    return dataclasses.field(default=default, default_factory=default_factory, metadata={_KEY: own})


def changed(owner: type, name: str, **facts: Any) -> Any:
    """Declares a setting of a base class again with another default or other facts.

    Args:
      owner: the base class.
      name: the name of the setting.
      **facts: arguments of `setting`.
    """
    (field,) = (field for field in dataclasses.fields(owner) if field.name == name)
    kept = {"default": field.default, "default_factory": field.default_factory}
    return setting(**kept | field.metadata[_KEY] | facts)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting, dataclasses.field))
def settings(cls: type[S]) -> type[S]:
    """Makes a class a frozen dataclass with keyword arguments, whose docstring lists its settings."""
    return documented(dataclasses.dataclass(frozen=True, kw_only=True)(cls))


def documented(cls: type[S]) -> type[S]:
    """Adds the meanings of the settings of a dataclass to its docstring."""
    cls.__doc__ = _with_section(cls.__doc__ or "", "Attributes", settings_of(cls))
    return cls


def settings_of(cls: type) -> list[Setting]:
    """Returns the settings of a dataclass: those without a default first, then those of base classes, then its own."""
    owners = [*cls.__mro__[1:], cls]
    names = list(dict.fromkeys(name for owner in owners for name in vars(owner).get("__annotations__", {})))
    return sorted(_settings_of(cls), key=lambda one: (not one.is_required, names.index(one.name)))


def _settings_of(cls: type) -> Iterator[Setting]:
    for field in dataclasses.fields(cls):
        if own := dict(field.metadata.get(_KEY, {})):
            default = field.default
            if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
                default = None  # made for each object
            own["flag"] = field.name if own["flag"] is True else own["flag"] or ""
            yield Setting(field.name, field.type, default, **own)


@dataclasses.dataclass(frozen=True)
class Settings:
    """A base class of classes of settings, which checks their values."""

    def __post_init__(self) -> None:
        for one in settings_of(type(self)):
            value = getattr(self, one.name)
            if value is not None:
                check_value(one, value)


def check_value(one: Setting, value: object) -> None:
    """Raises ConfigError unless a value is one that a setting allows."""
    if one.choices:
        check_choice(one.name, value, one.choices)
    if one.kinds == (bool,) and not isinstance(value, bool):
        raise ConfigError(f"{one.name} = {value!r} is neither True nor False. Fix: set it to one of these.", [one.name])
    if one.least == 1 and int in one.kinds:
        check_count(one.name, value)


def check_count(name: str, value: object) -> None:
    """Raises ConfigError unless a setting is a positive integer; bools do not count as integers."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} must be a positive integer, not {value!r}.", [name])


def check_choice(name: str, value: object, choices: typing.Sequence[str]) -> None:
    """Raises ConfigError unless the value of a setting is one of its choices."""
    if value not in choices:
        hint = did_you_mean(str(value), choices)
        raise ConfigError(f"{name} = {value!r} is not known.{hint} Fix: choose one of {', '.join(choices)}.", [name])


def values_of(cls: type, *sources: object, **known: Any) -> dict[str, Any]:
    """Returns the keyword arguments of a class of settings.

    Args:
      cls: the class.
      *sources: objects whose attributes have the names of settings; the first one with a name counts.
      **known: values that count before those of the sources.
    """
    found = {}
    for one in settings_of(cls):
        holders = [source for source in sources if hasattr(source, one.name)]
        if one.name in known or holders:
            found[one.name] = known[one.name] if one.name in known else getattr(holders[0], one.name)
    return found


def agreed(values: object) -> dict[str, Any]:
    """Returns the values of the settings that all processes of a program must share, by name."""
    return {one.name: getattr(values, one.name) for one in settings_of(type(values)) if one.shared}


def takes(cls: Callable[P, S]) -> Callable[[Callable[[S], R]], Callable[P, R]]:
    """Makes a function of settings a function of keyword arguments, with its signature and its documentation.

    Args:
      cls: the class of the settings.

    Returns:
      A decorator of a function with one argument, of this class.
    """

    def decorate(function: Callable[[S], R]) -> Callable[P, R]:
        listed = settings_of(typing.cast(type, cls))
        parameters = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if one.is_required else one.default,
                annotation=one.type,
            )
            for one in listed
        ]
        returns = inspect.signature(function).return_annotation
        signature = inspect.Signature(parameters, return_annotation=returns)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(cls(*args, **kwargs))

        del call.__wrapped__  # its signature is another one
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = _with_section(function.__doc__ or "", "Args", listed)
        call.__annotations__ = {one.name: one.type for one in listed} | {"return": returns}
        return call

    return decorate


def _with_section(doc: str, title: str, listed: list[Setting]) -> str:
    """Adds a section about settings to a docstring, before the sections about the result and errors."""
    lines = [f"  {one.name}: {one.meaning}{'' if one.meaning.endswith('.') else '.'}" for one in listed]
    section = "\n".join([f"{title}:", *lines])
    text = inspect.cleandoc(doc)
    match = re.search(r"^(Returns|Raises|Yields):$", text, re.MULTILINE)
    if match is None:
        return f"{text}\n\n{section}\n"
    return f"{text[: match.start()]}{section}\n\n{text[match.start() :]}"
