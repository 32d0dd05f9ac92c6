"""Finds out which failures the user can mend, and words them as a message without a traceback."""

import errno
import os
import re
from collections.abc import Sequence

from mtf_imaging.cli.runtime.spelled import on_the_command_line
from mtf_imaging.errors import ConfigError, Interrupted, LayoutError, MtfImagingError, reason

INTERRUPTED = 75  # EX_TEMPFAIL of sysexits.h: the same command succeeds later

# gin adds the function that it was calling, with its address, to every error that passes through it.
_GIN_TRAIL = re.compile(r"\n\s*In call to configurable .*", re.DOTALL)
_REQUIRED = re.compile(r"Required bindings for `(?P<name>[^`]+)` not provided in config: (?P<parameters>.*)")
_WITHOUT_DEFAULT = re.compile(
    r"\S+\(\) missing \d+ required (positional|keyword-only) arguments?: (?P<parameters>.*)"
    r"(\n.*)*?\n\s*In call to configurable '(?P<name>[^']+)'"
)
_QUOTED = re.compile(r"'([^']+)'")
_LESS_AT_A_TIME = ("batch_size", "micro_batches", "workers", "resolution")
_FULL = " Fix: make room on the disk; what was whole before stays."
_BARRED = " Fix: permissions, the disk, or another folder."
# What the file system says -> what to do. TensorFlow says it in errors of a dozen classes, none of which is an OSError.
_FIXES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE), _BARRED),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), ""),
    errno.EEXIST: " Fix: give a folder, or a name that nothing has.",  # a file, where a folder is to be
}


def explain(error: BaseException, argv: Sequence[str] = ()) -> str | None:
    """Words a failure for the user.

    Args:
      error: what a command raised.
      argv: the words of the command line, of which the first names the command.

    Returns:
      The message, and how the settings that its fix speaks of are written on a command line; "" where there is nothing
      to say; None for a bug, of which the traceback should be seen.
    """
    text = _GIN_TRAIL.sub("", str(error))
    if isinstance(error, MtfImagingError):
        return "\n".join(filter(None, [text, on_the_command_line(error.settings, *argv[:1])]))
    if isinstance(error, KeyboardInterrupt):
        return text or "interrupted."
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone, as in `mtf-imaging ... | head`
        return ""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}.{_FIXES.get(error.errno, '')}"
    if missing := _missing_parameters(error):
        verb, them = ("has", "it") if len(missing) == 1 else ("have", "each")
        example = f"as {missing[0]} = VALUE, or on the command line, as --gin.{missing[0]}=VALUE"
        return f"{', '.join(missing)} {verb} no value. Fix: set {them} in a gin file, {example}."
    names = {kind.__name__ for kind in type(error).__mro__}  # TensorFlow's are told by name: it may not be imported
    codes = [code for code in _FIXES if f"; {os.strerror(code)}" in text]
    if "OpError" in names and codes:
        return f"{reason(error)}.{_FIXES[codes[0]]}"
    if isinstance(error, MemoryError) or "ResourceExhaustedError" in names:
        facts = "\n  ".join(["out of memory. Fix: less at a time, or more memory.", *text.splitlines()[:1]])
        return "\n".join(filter(None, [facts, on_the_command_line(_LESS_AT_A_TIME, *argv[:1])]))
    return None


def _missing_parameters(error: BaseException) -> list[str]:
    """Returns the parameters, such as "train.num_steps", for which gin has no value."""
    text = str(error)
    if isinstance(error, RuntimeError) and (match := _REQUIRED.match(text)):  # they are gin.REQUIRED
        return [f"{match['name']}.{parameter}" for parameter in _QUOTED.findall(match["parameters"])]
    # They have no default. Python says so of any function; gin's own line names the one that gin called.
    if isinstance(error, TypeError) and _raised_by_gin(error) and (match := _WITHOUT_DEFAULT.match(text)):
        return [f"{match['name']}.{parameter}" for parameter in _QUOTED.findall(match["parameters"])]
    return []


def _raised_by_gin(error: BaseException) -> bool:
    """Whether gin itself made the call that failed, and not the function that it called."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") == "gin.config"


def exit_code(error: BaseException) -> int:
    """Returns the exit code that `main` documents."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, Interrupted):
        return INTERRUPTED
    return 2 if isinstance(error, ConfigError | LayoutError) or _missing_parameters(error) else 1
