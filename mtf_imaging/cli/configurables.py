"""What can be configured: the gin parameters of the package, of its models, and of modules that gin files import."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from typing import NamedTuple

import gin

import mtf_imaging
import mtf_imaging.models
from mtf_imaging.cli.docstrings import parameter_meanings

_PACKAGE = mtf_imaging.__name__
_ALL_OF_PACKAGE = (f"{_PACKAGE}.cli.training", f"{_PACKAGE}.cli.planning")
_OTHERS = ("gin.", "mesh_tensorflow.")  # what these make configurable, no job uses
_PATH = re.compile(r"\b(?:\w+\.)+(?=\w)")


class Parameter(NamedTuple):
    """A parameter that gin can bind.

    Attributes:
      name: as gin files call it, "train.num_steps".
      type: what it is, "int | None".
      default: as Python writes it; None where there is none: a value must be given.
      value: what is bound to it, as gin writes it; None where nothing is.
      meaning: what it does; "" where nobody says.
    """

    name: str
    type: str
    default: str | None
    value: str | None
    meaning: str


def import_all() -> None:
    """Imports everything of the package that has parameters, its models included."""
    models = mtf_imaging.models
    names = [f"{models.__name__}.{module.name}" for module in pkgutil.iter_modules(models.__path__)]
    for name in (*_ALL_OF_PACKAGE, *names):
        importlib.import_module(name)


def parameters() -> list[Parameter]:
    """Returns all parameters: those of the package first, then those of models and of the user's own modules."""
    found = []
    for selector, configurable in gin.config._REGISTRY.items():  # gin has no public list
        if selector.startswith(_OTHERS):
            continue
        wrapped, own = configurable.wrapped, selector.removeprefix(f"{_PACKAGE}.")
        meanings = parameter_meanings(wrapped)
        for parameter in inspect.signature(wrapped).parameters.values():
            if parameter.name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if not _is_bindable(configurable, parameter.name):
                continue
            default = _default(wrapped, parameter)
            found.append(
                Parameter(
                    f"{own}.{parameter.name}",
                    _type(parameter, default),
                    None if default is gin.REQUIRED else _shown(default),
                    _bound(f"{selector}.{parameter.name}"),
                    meanings.get(parameter.name, ""),
                )
            )
    return sorted(found, key=lambda one: (one.name.count("."), one.name.rpartition(".")[0].lower()))


def _is_bindable(configurable, name):
    if configurable.allowlist:
        return name in configurable.allowlist
    return name not in (configurable.denylist or ())


def _default(wrapped, parameter):
    if parameter.default is parameter.empty:
        return gin.REQUIRED
    if dataclasses.is_dataclass(wrapped):
        for field in dataclasses.fields(wrapped):
            if field.name == parameter.name and field.default_factory is not dataclasses.MISSING:
                return field.default_factory()
    return parameter.default


def _type(parameter, default):
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return "any" if default in (None, gin.REQUIRED) else type(default).__name__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _PATH.sub("", text)  # where a type is defined says nothing in a gin file


def _shown(value):
    return getattr(value, "__name__", None) or repr(value)


def _bound(name):
    try:
        return repr(gin.query_parameter(name))
    except ValueError:
        return None
