"""Imports of TensorFlow without its log lines."""

import contextlib
import importlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from types import ModuleType

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_SILENT = "3"
# TensorFlow's C++ code writes such lines before it reads the level.
_LOG_LINE = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\)"
    rb"|[IWEF]\d{4} \d\d:\d\d:"
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] "
    rb"|To enable the following instructions: "
)
_one_import = threading.Lock()


def import_quietly(module: str) -> ModuleType:
    """Imports a module, and hides the log lines of TensorFlow if the module is the first to import it.

    Nothing is hidden if the user sets TF_CPP_MIN_LOG_LEVEL to another number than 3, the number for silence.
    """
    if "tensorflow" in sys.modules or not _one_import.acquire(blocking=False):
        return importlib.import_module(module)
    try:
        with without_log_lines() if silence() else contextlib.nullcontext():
            return importlib.import_module(module)
    finally:
        _one_import.release()


def silence() -> bool:
    """Sets TensorFlow's log level to silence, unless the user sets another level. Returns whether it is silence."""
    return os.environ.setdefault(LEVEL, _SILENT) == _SILENT  # also if a parent process set it


@contextlib.contextmanager
def without_log_lines() -> Iterator[None]:
    """Buffers file descriptor 2, also of C++ code, and then writes the lines that are not from TensorFlow's log.

    After an error of the body, it writes all lines.
    """
    with contextlib.suppress(AttributeError, OSError, ValueError):  # there is no stderr, or it is closed
        sys.stderr.flush()
    try:
        stderr = os.dup(2)
    except OSError:  # the descriptor is closed, so nobody sees the lines
        yield
        return
    shows_all = True
    with tempfile.TemporaryFile() as buffer:
        os.dup2(buffer.fileno(), 2)
        try:
            yield
            shows_all = False
        except (Exception, SystemExit):
            raise
        except BaseException:  # a signal, which explains the end
            shows_all = False
            raise
        finally:
            with contextlib.suppress(AttributeError, OSError, ValueError):
                sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            buffer.seek(0)
            lines = [line for line in buffer if shows_all or not _LOG_LINE.match(line)]
            with contextlib.suppress(OSError):  # the terminal is lost, or nobody reads the pipe
                os.write(2, b"".join(lines))
