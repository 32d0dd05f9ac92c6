"""Checks that custom classes have the required methods, before a long computation begins."""

import inspect
from collections.abc import Iterable

from mtf_imaging.errors import ConfigError


def check_offers(thing: object, protocol: type, where: str) -> None:
    """Checks that an object has the methods of a protocol, with compatible parameters.

    Args:
      thing: the object.
      protocol: a `typing.Protocol`. A parameter `**kwargs` of its methods stands for any keyword arguments.
      where: the name of the keyword argument, for instance "task".

    Raises:
      ConfigError: `thing` is a class instead of an object, lacks a method, or has a method with other parameters.
    """
    for name, method in vars(protocol).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            parameters = list(inspect.signature(method).parameters.values())[1:]  # without self
            by_place = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
            by_name = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY]
            check_takes(thing, name, where, by_place, by_name if by_place or by_name else None)


def check_takes(thing: object, name: str, where: str, by_place: Iterable[str], by_name: Iterable[str] | None) -> None:
    """Checks that an object has a method that accepts the given arguments.

    Args:
      thing: the object.
      name: name of the method.
      where: the name of the keyword argument for `thing`, for instance "task".
      by_place: names of the positional arguments, for the message.
      by_name: names of the keyword arguments; None if the method may have any parameters.

    Raises:
      ConfigError: there is no such method, or it does not accept the arguments.
    """
    call = f"{name}({', '.join([*by_place, *(f'{word}=...' for word in by_name or ())])})"
    try:
        signature = inspect.signature(getattr(thing, name))
        if by_name is not None:
            signature.bind(*by_place, **dict.fromkeys(by_name))
    except (AttributeError, TypeError) as error:
        own = f"the class {thing.__name__}" if isinstance(thing, type) else f"of class {type(thing).__name__}"
        raise ConfigError(
            f"{where} is {own}, which cannot be called as {where}.{call}: {error}. Fix: pass an instance of a class "
            f"with the method {name} and these arguments.",
            settings=[where],
        ) from error


def replaces(thing: object, name: str, other: str) -> bool:
    """Returns whether an object has the method `name`, which should be called instead of the method `other`.

    If a derived class overrides only `other`, the inherited method `name` does not reflect the change and is not
    called.

    Args:
      thing: the object.
      name, other: names of methods with the same purpose.
    """
    for each in type(thing).__mro__:
        if name in vars(each) or other in vars(each):
            return name in vars(each)
    return callable(getattr(thing, name, None))
