"""Lists the gin parameters of the package, its models and the modules that gin files import."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from typing import NamedTuple

import gin

import mtf_imaging
import mtf_imaging.models
from mtf_imaging.cli.config import gin_internals
from mtf_imaging.settings.docstrings import parameter_meanings
from mtf_imaging.settings.setting import Settings, settings_of

_PACKAGE = mtf_imaging.__name__
_ALL_OF_PACKAGE = (f"{_PACKAGE}.cli.config.training_settings", f"{_PACKAGE}.cli.config.planning_flags")
_OTHERS = ("gin.", "mesh_tensorflow.")  # jobs do not use the configurables of these packages
_PATH = re.compile(r"\b(?:\w+\.)+(?=\w)")


class Parameter(NamedTuple):
    """A parameter that gin can bind.

    Attributes:
      name: the name in gin files, such as "train.num_steps".
      type: the type annotation, such as "int | None", and the unit if there is one.
      default: the `repr` of the default; None if the parameter is required.
      value: the bound value in gin syntax; None if the parameter is not bound.
      meaning: the description in the docstring; "" if the docstring has none.
    """

    name: str
    type: str
    default: str | None
    value: str | None
    meaning: str


def import_all() -> None:
    """Imports all modules of the package that have parameters, including its models."""
    models = mtf_imaging.models
    names = [f"{models.__name__}.{module.name}" for module in pkgutil.iter_modules(models.__path__)]
    for name in (*_ALL_OF_PACKAGE, *names):
        importlib.import_module(name)


def module_of(name: str) -> str | None:
    """Returns the module of models that registers a name, such as "unet3d.UNet3D"; None if none does."""
    import_all()
    for selector, configurable in gin_internals.configurables():
        is_model = configurable.wrapped.__module__.startswith(f"{mtf_imaging.models.__name__}.")
        if is_model and f".{selector}".endswith(f".{name}"):
            return f"{mtf_imaging.models.__name__}.{selector.split('.')[0]}"
    return None


def parameters() -> list[Parameter]:
    """Returns all parameters: first the package's, then those of its models and the user's modules."""
    every = []
    for selector, configurable in gin_internals.configurables():
        if selector.startswith(_OTHERS):
            continue
        wrapped, own = configurable.wrapped, selector.removeprefix(f"{_PACKAGE}.")
        listed = settings_of(wrapped) if isinstance(wrapped, type) and issubclass(wrapped, Settings) else []
        meanings = parameter_meanings(wrapped) | {one.name: one.meaning for one in listed}
        units = {one.name: one.unit for one in listed}
        for parameter in inspect.signature(wrapped).parameters.values():
            if parameter.name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            allowed, denied = configurable.allowlist, configurable.denylist or ()
            if parameter.name not in allowed if allowed else parameter.name in denied:
                continue
            default = _default(wrapped, parameter)
            every.append(
                Parameter(
                    f"{own}.{parameter.name}",
                    ", ".join(filter(None, [_type(parameter, default), units.get(parameter.name)])),
                    None if default is gin.REQUIRED else getattr(default, "__name__", None) or repr(default),
                    _bound_value(f"{selector}.{parameter.name}"),
                    meanings.get(parameter.name, ""),
                )
            )
    return sorted(every, key=lambda one: (one.name.count("."), one.name.rpartition(".")[0].lower()))


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
    return _PATH.sub("", text)  # a gin file does not need the module that defines the type


def _bound_value(name):
    try:
        return repr(gin.query_parameter(name))
    except ValueError:
        return None
