"""Runs the program, and sends this process a signal at a moment: `python -m benchmarks.reliability.several.struck`.

The first argument is a `Strike` in JSON, the others are the words of the command.
"""

import dataclasses
import functools
import importlib.abc
import importlib.util
import json
import os
import runpy
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.reliability.commands import PROGRAM


@dataclasses.dataclass(frozen=True)
class Strike:
    """A signal that a process sends itself.

    Attributes:
      point: "module:function", where the function may be "Class.method"; or "module", for its import.
      call: the number of the call after which the signal follows, from 1.
      delay_s: seconds between the call and the signal.
      signal: the signal number.
      mark: a file that is written just before the signal.
    """

    point: str
    call: int
    delay_s: float
    signal: int
    mark: str

    def words(self) -> tuple[str, ...]:
        """Returns the module and the argument that run a command with this strike."""
        return "benchmarks.reliability.several.struck", json.dumps(dataclasses.asdict(self))

    def begin(self) -> None:
        """Sends the signal after the delay."""
        if self.delay_s:
            threading.Thread(target=self._send, daemon=True).start()
        else:
            self._send()

    def _send(self) -> None:
        time.sleep(self.delay_s)
        Path(self.mark).touch()
        os.kill(os.getpid(), self.signal)


class Finder(importlib.abc.MetaPathFinder):
    """Strikes at the import of a module, or at a call to one of its functions.

    Args:
      strike: the strike.
    """

    def __init__(self, strike: Strike) -> None:
        self._module, _, self._function = strike.point.partition(":")
        self._strike, self._is_asking, self._has_begun = strike, False, False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of the strike's module, and None for all others, which the other finders handle."""
        if fullname != self._module or self._is_asking:
            return None
        self._is_asking = True  # the next line asks all finders
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._is_asking = False
        assert spec is not None, fullname
        assert spec.loader is not None, fullname
        if not self._function:
            if not self._has_begun:
                self._has_begun = True
                self._strike.begin()
            return spec
        execute: Callable[[ModuleType], None] = spec.loader.exec_module

        def execute_and_wrap(module: ModuleType) -> None:
            execute(module)
            wrap(module, self._function, self._strike)

        spec.loader.exec_module = execute_and_wrap  # type: ignore[method-assign]
        return spec


def wrap(owner: Any, name: str, strike: Strike) -> None:
    """Makes a call to a function, or to a method "Class.method", start a strike.

    Args:
      owner: the module.
      name: the name of the function.
      strike: the strike.
    """
    *parents, last = name.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original, calls = getattr(owner, last), 0

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == strike.call:
            strike.begin()
        return original(*args, **kwargs)

    setattr(owner, last, wrapped)


if __name__ == "__main__":
    sys.meta_path.insert(0, Finder(Strike(**json.loads(sys.argv[1]))))
    sys.argv = [PROGRAM, *sys.argv[2:]]
    runpy.run_module(PROGRAM, run_name="__main__", alter_sys=True)
