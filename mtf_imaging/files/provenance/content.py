"""Digests of the content of Python values: tasks, arrays, and functions with their code.

Two values have the same digest if and only if they compute the same, as far as this can be told from their content. A
digest does not depend on addresses, on the order of sets and dicts, on the process or on the machine. The code of
installed libraries and of this package counts by name; other code counts by its bytecode, which depends on the version
of Python.
"""

import copyreg
import dis
import functools
import hashlib
import sys
import types
import weakref
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from mtf_imaging.errors import ConfigError

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented))
_PACKAGE = __name__.partition(".")[0]
_INSTALLED = {"site-packages", "dist-packages"}  # folders of libraries
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")
# Slots, and methods written in C: they have no content besides their names.
_NAMED = (
    *(types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType),
    *(types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, np.ufunc),
)


def content_digest(value: object, name: str) -> str:
    """Returns the SHA-256 of the content of a value.

    An object is its class and its state, as it would be pickled. A function is its code with the constants, defaults,
    values of its closure, and the global variables that it reads. A `Path` of a file is the content of the file.

    >>> def scaled(rate):
    ...     return lambda x: rate * x
    >>> content_digest(scaled(0.123456789), "loss") == content_digest(scaled(0.1234567891), "loss")
    False
    >>> content_digest({"a": [1], "b": 2}, "sizes") == content_digest({"b": 2, "a": (1,)}, "sizes")
    True

    Args:
      value: the value.
      name: its name in messages, such as "task".

    Raises:
      ConfigError: a part of the value cannot be compared by its content, such as a lock or an open file.
    """
    return _Content().of(value, name).hex()


class _Content:
    """Computes digests of values, each object once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[object, bytes]] = {}  # with the object, so that its id is not used again
        self._begun: set[int] = set()

    def of(self, value: object, where: str) -> bytes:
        """Returns the digest of a value."""
        if isinstance(value, np.generic) and not isinstance(value, np.void):
            value = value.item()
        if type(value) in _PLAIN:
            text = value if isinstance(value, str | bytes) else repr(value)
            data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
            return _digest(type(value).__name__, data)
        number = id(value)
        if number in self._known:
            return self._known[number][1]
        if number in self._begun:  # a cycle
            return _digest("cycle", getattr(value, "__qualname__", type(value).__qualname__).encode())
        self._begun.add(number)
        own = self._object(value, where)
        self._begun.remove(number)
        self._known[number] = value, own
        return own

    def _object(self, value: Any, where: str) -> bytes:
        if type(value) in (list, tuple):
            return _digest("sequence", *(self.of(one, f"{where}[{number}]") for number, one in enumerate(value)))
        if type(value) in (dict, types.MappingProxyType):
            return _digest("dict", *self._pairs(value.items(), where))
        if type(value) in (set, frozenset):
            return _digest("set", *sorted(self.of(one, where) for one in value))
        if type(value) in (np.ndarray, np.memmap):
            return self._array(value, where)
        if isinstance(value, PurePath):
            return _file(value) or _digest("path", value.as_posix().encode())
        if isinstance(value, weakref.WeakKeyDictionary | weakref.WeakValueDictionary | weakref.WeakSet):
            return _digest("cache")  # its entries vanish
        if isinstance(value, types.ModuleType):
            file = None if _is_library(value.__name__) else getattr(value, "__file__", None)
            return _digest("module", value.__name__.encode(), (file and _file(Path(file))) or b"")
        if isinstance(value, types.FunctionType):
            return self._function(value, where)
        if isinstance(value, types.MethodType):
            return _digest("method", self.of(value.__func__, where), self.of(value.__self__, where))
        if isinstance(value, property):
            return self._parts("property", [value.fget, value.fset, value.fdel], where)
        if isinstance(value, staticmethod | classmethod):
            return self._parts(type(value).__name__, [value.__func__], where)
        if isinstance(value, functools.cached_property):
            return self._parts("cached_property", [value.func], where)
        if isinstance(value, type):
            return self._class(value, where)
        if isinstance(value, _NAMED):
            owner = getattr(value, "__self__", getattr(value, "__objclass__", None))
            return self._parts("named", [getattr(value, "__qualname__", value.__name__), owner], where)
        return self._state(value, where)

    def _parts(self, kind: str, values: Iterable[Any], where: str) -> bytes:
        return _digest(kind, *(self.of(one, where) for one in values))

    def _pairs(self, items: Iterable[tuple[Any, Any]], where: str) -> list[bytes]:
        pairs = ((self.of(key, where), self.of(one, f"{where}.{key}")) for key, one in items)
        return [part for pair in sorted(pairs) for part in pair]

    def _array(self, value: np.ndarray, where: str) -> bytes:
        if value.dtype.hasobject:
            return self._parts("array", [value.shape, value.ravel().tolist()], where)
        own = value.astype(value.dtype.newbyteorder("<"), order="C", copy=False)
        return _digest("array", f"{own.dtype.descr} {own.shape}".encode(), hashlib.sha256(own.data).digest())

    def _function(self, value: types.FunctionType, where: str) -> bytes:
        where = f"{where}: function {value.__qualname__}"
        module, code = value.__globals__.get("__name__", ""), value.__code__
        cells = {name: _cell(cell) for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True)}
        state = [value.__defaults__, value.__kwdefaults__, cells, vars(value)]
        if _is_library(module):
            own = [module, value.__qualname__, *([code] if "<lambda>" in value.__qualname__ else [])]
            return _digest("function", self._code(own, where), self._parts("state", state, where))
        read = {name: value.__globals__[name] for name in _globals(code) if name in value.__globals__}
        return _digest("function", self._code([code], where), self._parts("state", [*state, read], where))

    def _code(self, parts: Iterable[Any], where: str) -> bytes:
        """Returns the digest of constants, some of which are code."""
        found = []
        for one in parts:
            if isinstance(one, types.CodeType):
                names = one.co_names, one.co_varnames, one.co_freevars, one.co_cellvars
                counts = one.co_argcount, one.co_posonlyargcount, one.co_kwonlyargcount, one.co_flags
                code = [one.co_code, one.co_exceptiontable, names, counts]
                found += [self._parts("code", code, where), self._code(one.co_consts, where)]
            else:
                found.append(self.of(one, where))
        return _digest("constants", *found)

    def _class(self, value: type, where: str) -> bytes:
        if _is_library(value.__module__):
            return self._parts("class", [value.__module__, value.__qualname__], where)
        own = {name: one for name, one in vars(value).items() if not _is_made(name, one)}
        return self._parts("class", [value.__qualname__, value.__bases__, own], f"{where}: class {value.__qualname__}")

    def _state(self, value: object, where: str) -> bytes:
        """Returns the digest of an object from the parts that pickle would store."""
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            parts = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception as error:
            raise ConfigError(
                f"{where}: an object of the class {type(value).__module__}.{type(value).__qualname__} cannot be "
                f"compared by its content ({error}), so results of a different one could be mistaken for its own. Fix: "
                "leave it out, or define __getstate__ in the class that contains it, without this object."
            ) from error
        if isinstance(parts, str):  # the name of an object, or of a function with a cache
            return self._parts("global", [type(value), parts, getattr(value, "__wrapped__", None)], where)
        make, arguments, state, items, pairs = (*parts, None, None, None)[:5]
        state = tuple(state) if isinstance(state, list) else state
        for number, one in enumerate(state if isinstance(state, tuple) else (state,)):
            if isinstance(one, dict):
                kept = {name: part for name, part in one.items() if not _is_cached(type(value), name)}
                state = kept if one is state else (*state[:number], kept, *state[number + 1 :])
        listed, mapped = list(items or ()), self._pairs(pairs or (), where)
        return _digest("object", self._parts("parts", [make, arguments, state, listed], where), *mapped)


def _digest(kind: str, *parts: bytes) -> bytes:
    whole = hashlib.sha256()
    for part in (kind.encode(), *parts):
        whole.update(b"%d:" % len(part) + part)
    return whole.digest()


def _file(path: PurePath) -> bytes | None:
    """Returns the digest of the content of a file; None if there is no such file."""
    if not Path(path).is_file():
        return None
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


def _globals(code: types.CodeType) -> set[str]:
    """Returns the names of the global variables that code reads, including the code of its inner functions."""
    names = {one.argval for one in dis.get_instructions(code) if one.opname in _LOADS}
    return names.union(*(_globals(one) for one in code.co_consts if isinstance(one, types.CodeType)))


def _is_library(module: str) -> bool:
    """Returns whether a module belongs to this package, to Python or to an installed library."""
    root = module.partition(".")[0]
    if root == "__main__":
        return False
    if root == _PACKAGE or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not _INSTALLED.isdisjoint(Path(file).parts)


def _is_made(name: str, value: object) -> bool:
    """Returns whether Python made an attribute of a class itself, from other attributes or as documentation."""
    is_special = name.startswith("__") and name.endswith("__")
    called = types.FunctionType | staticmethod | classmethod | property
    return name == "_abc_impl" or (is_special and not isinstance(value, called)) or name == "__annotate__"


def _is_cached(kind: type, name: str) -> bool:
    """Returns whether an attribute is a cached result."""
    return isinstance(name, str) and isinstance(getattr(kind, name, None), functools.cached_property)
