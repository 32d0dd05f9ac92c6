"""Defines the flags of settings and reads their values."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from absl import flags

from mtf_imaging.errors import ConfigError
from mtf_imaging.settings.setting import Setting, check_value, settings_of

_NO_NAMES: Mapping[str, str] = MappingProxyType({})


def define(
    values: flags.FlagValues,
    *classes: type,
    without: Collection[str] = (),
    bound: Mapping[str, str] = _NO_NAMES,
) -> None:
    """Defines the flags of settings.

    Args:
      values: the flags of a command.
      *classes: settings classes.
      without: names of settings to leave out.
      bound: {setting: gin parameter}. Flags of these settings have no default, because gin has one.
    """
    listed = {one.name: one for cls in classes for one in settings_of(cls) if one.flag and one.name not in without}
    spelled = {**bound, **{name: f"--{one.flag}" for name, one in listed.items()}}
    for one in listed.values():
        if one.flag not in values:
            text = one.sentences(lambda name: spelled.get(name, name)).removeprefix("Whether to ")
            default = None if one.name in bound or one.is_required else one.default
            _define(values, one, one.capitalized(text), default)


def shown_default(flag: flags.Flag) -> str:
    """Returns the default of a flag as on a command line, or "" if it has none or is false."""
    return "" if flag.default in (None, False, []) else str(flag.default)


def _define(values: flags.FlagValues, one: Setting, text: str, default: object) -> None:
    text = f"<{'|'.join(one.choices)}>: {text}" if one.choices else text
    options: dict[str, Any] = {"name": one.flag, "default": default, "help": text, "flag_values": values}
    items = getattr(one.kinds[0], "__args__", ())
    if items[:1] == (int,):
        flags.DEFINE_list(**options | {"default": default and [*map(str, default)]})
    elif items[:1] == (str,) and str not in one.kinds:
        flags.DEFINE_multi_string(**options | {"default": None if default is None else [*default]})
    elif bool in one.kinds:
        flags.DEFINE_bool(**options)
    elif int in one.kinds and str not in one.kinds:
        flags.DEFINE_integer(**options)
    elif float in one.kinds and str not in one.kinds:
        flags.DEFINE_float(**options)
    else:
        flags.DEFINE_string(**options)


def required(*classes: type) -> tuple[str, ...]:
    """Returns the flags of settings without a default."""
    return tuple(dict.fromkeys(one.flag for cls in classes for one in settings_of(cls) if one.flag and one.is_required))


class FlagSettings:
    """The values of flags as attributes with the names of the settings.

    Args:
      values: the flags of a command.
      *classes: settings classes.

    Raises:
      ConfigError: a setting does not allow its value.
    """

    def __init__(self, values: flags.FlagValues, *classes: type):
        for one in (one for cls in classes for one in settings_of(cls) if one.flag in values):
            value = values[one.flag].value
            if value is not None and getattr(one.kinds[0], "__args__", ())[:1] == (int,):
                value = _numbers(one, value)
            check_value(one._replace(name=f"--{one.flag}"), value)
            setattr(self, one.name, value)


def _numbers(one: Setting, words: list[str]) -> list[int]:
    if not words or not all(word.strip().isdecimal() for word in words):
        what = f"numbers of {one.unit}" if one.unit else "numbers"
        raise ConfigError(f"--{one.flag}={','.join(words)}: needs {what}. Fix: for instance --{one.flag}=0,2.")
    return [int(word) for word in words]
