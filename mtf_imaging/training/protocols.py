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
    if inspect.isclass(thing):
        raise ConfigError(
            f"{where} is the class {thing.__name__}, not an instance of it. Fix: {where}={_called(thing)}.",
            settings=[where],
        )
    methods = {name: method for name, method in vars(protocol).items() if inspect.isfunction(method) and name[0] != "_"}
    lacking = [name for name in methods if not callable(getattr(thing, name, None))]
    if lacking:
        signatures = " and ".join(f"{name}{inspect.signature(methods[name])}" for name in lacking)
        raise ConfigError(
            f"{where} (of class {type(thing).__name__}) lacks the method{'s' * (len(lacking) > 1)} "
            f"{', '.join(lacking)}. Fix: define {signatures}.",
            settings=[where],
        )
    for name, method in methods.items():
        parameters = list(inspect.signature(method).parameters.values())[1:]  # without self
        by_place = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
        by_name = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY]
        if by_place or by_name:
            check_takes(thing, name, where, by_place, by_name)


def check_takes(thing: object, name: str, where: str, by_place: Iterable[str], by_name: Iterable[str]) -> None:
    """Checks that a method accepts the given arguments.

    Args:
      thing: the object.
      name: name of the method.
      where: the name of the keyword argument for `thing`, for instance "task".
      by_place: names of the positional arguments, for the message.
      by_name: names of the keyword arguments.

    Raises:
      ConfigError: the method does not accept them.
    """
    signature = inspect.signature(getattr(thing, name))
    try:
        signature.bind(*by_place, **dict.fromkeys(by_name))
    except TypeError as error:
        call = ", ".join([*by_place, *(f"{word}=..." for word in by_name)])
        raise ConfigError(
            f"{where} (of class {type(thing).__name__}): {name}{signature} will be called as {name}({call}): {error}. "
            f"Fix: make {name} accept these arguments.",
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


def _called(thing: type) -> str:
    return f"{thing.__name__}()"
