"""Forks processes from one process that has imported TensorFlow, because the import takes seconds.

This is safe because TensorFlow starts its threads only when it is first used.
"""

import multiprocessing
import os
import resource
import runpy
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["benchmarks.reliability.preloaded"])
# Whenever a process starts, multiprocessing reads the exit codes of all processes that have ended. If two threads read
# the same exit code at the same time, one of them finds an empty pipe and sets the code to 255 (CPython 3.11).
_LOCK = threading.Lock()


def start(
    module: str,
    *words: object,
    cwd: str | os.PathLike | None = None,
    stdout: str | os.PathLike | None = None,
    stderr: str | os.PathLike | None = None,
    environment: Mapping[str, str | None] | None = None,
    limits: Mapping[int, int] | None = None,
    session: bool = False,
) -> BaseProcess:
    """Runs a module like `python -m MODULE WORDS` in a new process.

    Args:
      module: the name of the module.
      *words: its arguments.
      cwd: the working folder, or None for the current one.
      stdout, stderr: files for the output, which may be the same, or None.
      environment: variables to set, or to remove if the value is None.
      limits: soft limits of resources, {resource.RLIMIT_NOFILE: 64}.
      session: whether the process leads its own session, so that its workers can be killed with it.

    Returns:
      The process.
    """
    process = _CONTEXT.Process(
        target=_run,
        args=(
            module,
            [os.fspath(word) if isinstance(word, Path) else str(word) for word in words],
            os.fspath(cwd or os.getcwd()),
            [None if path is None else os.fspath(path) for path in (stdout, stderr)],
            dict(environment or {}),
            dict(limits or {}),
            session,
        ),
    )
    with _LOCK:
        process.start()
    return process


def exit_code(process: BaseProcess) -> int | None:
    """Returns the exit code of a process, or None if it is running. Several threads may call this and `start`."""
    with _LOCK:
        return process.exitcode


def _run(
    module: str,
    words: Sequence[str],
    cwd: str,
    outputs: Sequence[str | None],
    environment: Mapping[str, str | None],
    limits: Mapping[int, int],
    session: bool,
) -> None:
    if session:
        os.setsid()
    os.chdir(cwd)
    # Opened for appending, so that stdout and stderr can share a file.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for path in outputs:
        if path is not None:
            os.close(os.open(path, flags | os.O_TRUNC))
    for target, path in enumerate(outputs, start=1):
        file = os.open(path or os.devnull, flags)
        os.dup2(file, target)
        os.close(file)
    for name, value in environment.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    for number, limit in limits.items():
        resource.setrlimit(number, (limit, resource.getrlimit(number)[1]))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__")
