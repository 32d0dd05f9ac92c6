"""Processes that are forked from one process that has imported TensorFlow, because the import takes seconds.

This is safe because TensorFlow starts its threads only when it is first used.
"""

import multiprocessing
import os
import runpy
import sys

from tests import waiting

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.preloaded"])


def start(module, *words, cwd=None, stdout=None, stderr=None):
    """Runs a module like `python -m MODULE WORDS` in a new process.

    Args:
      module: the name of the module.
      *words: its arguments.
      cwd: the working folder, or None for that of this process.
      stdout, stderr: files for the output, or None.

    Returns:
      The `multiprocessing.Process`.
    """
    process = _CONTEXT.Process(target=_run, args=(module, [*map(str, words)], cwd or os.getcwd(), stdout, stderr))
    process.start()
    return process


def run(module, *words, code=0, **options):
    """Runs a module in a new process, which must end with an exit code."""
    process = start(module, *words, **options)
    command = f"{module} {' '.join(map(str, words))}"
    try:
        actual = waiting.wait_for_end(process, f"the end of {command}")
    finally:
        end(process)
    assert actual == code, f"{command}: exit code {actual}"


def end(process):
    """Kills a process if it still runs."""
    process.kill()
    process.join()


def _run(module, words, cwd, stdout, stderr):
    os.chdir(cwd)
    for target, path in ((1, stdout), (2, stderr)):
        file = os.open(path or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, target)
        os.close(file)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__")
