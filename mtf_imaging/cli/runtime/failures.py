"""Converts failures that the user can fix into messages without a traceback."""

import errno
import os
import re
from collections.abc import Sequence

from mtf_imaging.cli.runtime.messages import on_the_command_line
from mtf_imaging.errors import ConfigError, Interrupted, LayoutError, MtfImagingError, reason

INTERRUPTED = 75  # EX_TEMPFAIL in sysexits.h: the same command can succeed later

# gin appends the function that it called, with its memory address, to every error that passes through it.
_GIN_TRAIL = re.compile(r"\n\s*In call to configurable .*", re.DOTALL)
_REQUIRED = re.compile(r"Required bindings for `(?P<name>[^`]+)` not provided in config: (?P<parameters>.*)")
_WITHOUT_DEFAULT = re.compile(
    r"\S+\(\) missing \d+ required (positional|keyword-only) arguments?: (?P<parameters>.*)"
    r"(\n.*)*?\n\s*In call to configurable '(?P<name>[^']+)'"
)
_QUOTED = re.compile(r"'([^']+)'")
_MEMORY_SETTINGS = ("batch_size", "micro_batches", "workers", "resolution")
_DISK_FULL = " Fix: free some disk space; files that were complete are unchanged."
_NO_ACCESS = " Fix: check the permissions and the disk, or give another folder."
_WRONG_PATH = " Fix: check the path."
_TOO_MANY_FILES = " Fix: allow more open files, for instance with ulimit -n 1024."
# {file system error number: fix}. TensorFlow reports these errors in a dozen classes that are not OSErrors.
_FIXES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _DISK_FULL),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE), _NO_ACCESS),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), _WRONG_PATH),
    errno.ELOOP: " Fix: remove the symbolic link.",
    errno.ENAMETOOLONG: " Fix: use a shorter name.",
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), _TOO_MANY_FILES),
    errno.EEXIST: " Fix: give a folder, or a path that does not exist yet.",  # a file exists where a folder is needed
}


class ProgramFailed(MtfImagingError):
    """A failure of a program that a command runs. The command ends with the exit code of the program.

    Args:
      message: the message, or "" if the program has reported its failure.
      code: the exit code.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def explain(error: BaseException, argv: Sequence[str] = ()) -> str | None:
    """Returns the message for a failure.

    Args:
      error: the exception that a command raised.
      argv: the words of the command line; the first is the name of the command.

    Returns:
      The message, followed by the flags for the settings that its fix mentions; "" if there is nothing to report; None
      for a bug, whose traceback the user should see.
    """
    text = _GIN_TRAIL.sub("", str(error))
    if isinstance(error, MtfImagingError):
        return "\n".join(filter(None, [text, on_the_command_line(error.settings, *argv[:1])]))
    if isinstance(error, KeyboardInterrupt):
        return text or "interrupted."
    if isinstance(error, BrokenPipeError):  # nobody reads our output any more, as after `mtf-imaging ... | head`
        return ""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}.{_FIXES.get(error.errno, '')}"
    if missing := _missing_parameters(error):
        verb, them = ("has", "it") if len(missing) == 1 else ("have", "each")
        example = f"{missing[0]} = VALUE, or on the command line, --gin.{missing[0]}=VALUE"
        return f"{', '.join(missing)} {verb} no value. Fix: set {them} in a gin file, {example}."
    names = {kind.__name__ for kind in type(error).__mro__}  # not the classes: TensorFlow may not be imported
    codes = [code for code in _FIXES if f"; {os.strerror(code)}" in text]
    if "OpError" in names and codes:
        return f"{reason(error)}.{_FIXES[codes[0]]}"
    if isinstance(error, MemoryError) or "ResourceExhaustedError" in names:
        facts = "\n  ".join(
            ["out of memory. Fix: process less at a time, or use a machine with more memory.", *text.splitlines()[:1]]
        )
        return "\n".join(filter(None, [facts, on_the_command_line(_MEMORY_SETTINGS, *argv[:1])]))
    return None


def _missing_parameters(error: BaseException) -> list[str]:
    """Returns the parameters, such as "train.num_steps", for which gin has no value."""
    text = str(error)
    if isinstance(error, RuntimeError) and (match := _REQUIRED.match(text)):  # bound to gin.REQUIRED
        return [f"{match['name']}.{parameter}" for parameter in _QUOTED.findall(match["parameters"])]
    # Without a default. Python raises this error for any function; only gin's line names the function that gin called.
    if isinstance(error, TypeError) and _raised_by_gin(error) and (match := _WITHOUT_DEFAULT.match(text)):
        return [f"{match['name']}.{parameter}" for parameter in _QUOTED.findall(match["parameters"])]
    return []


def _raised_by_gin(error: BaseException) -> bool:
    """Returns whether gin itself made the failed call, rather than a function that gin called."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") == "gin.config"


def exit_code(error: BaseException) -> int:
    """Returns the exit code that `main` documents."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, ProgramFailed):
        return error.code
    if isinstance(error, Interrupted):
        return INTERRUPTED
    return 2 if isinstance(error, ConfigError | LayoutError) or _missing_parameters(error) else 1
