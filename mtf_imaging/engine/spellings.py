"""Other spellings of arguments: operations are called as in TensorFlow, layers as in Keras, and both accept both."""

import functools
import inspect
from collections.abc import Callable, MutableMapping
from typing import Any

_SPELLINGS = (("dilation", "dilations", "dilation_rate"), ("kernel_size", "ksize", "pool_size"))


def accept_all_spellings(names: MutableMapping[str, Any]) -> None:
    """Replaces the functions and classes of a module, so that they accept all spellings of an argument.

    A name in `_SPELLINGS` stands for the one of its row that the function has. The documented name is the only one for
    type checkers.

    Args:
      names: the public names of the module, with their values.
    """
    for name, value in names.items():
        if isinstance(value, type):
            value.__init__ = _with_all_spellings(value.__init__)  # type: ignore[misc]
        elif inspect.isfunction(value):
            names[name] = _with_all_spellings(value)


def _with_all_spellings(function: Callable[..., Any]) -> Callable[..., Any]:
    own = inspect.signature(function).parameters
    found = {other: name for row in _SPELLINGS for name in row if name in own for other in row if other != name}
    if not found:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for other in found.keys() & kwargs.keys():
            if found[other] in kwargs:
                raise TypeError(f"{function.__qualname__}: {other} and {found[other]} are the same argument")
            kwargs[found[other]] = kwargs.pop(other)
        return function(*args, **kwargs)

    return call
