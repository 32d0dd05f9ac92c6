"""Which failures are the user's to mend, and how they are told: in a message, without a traceback."""

import re

from mtf_imaging.errors import ConfigError, LayoutError, MtfImagingError

# gin adds the function that it was calling, with its address, to every error that passes through it.
_GIN_TRAIL = re.compile(r"\n\s*In call to configurable .*", re.DOTALL)


def explain(error: BaseException) -> str | None:
    """Returns what to tell the user, "" for nothing, or None for a bug, of which the traceback should be seen."""
    text = _GIN_TRAIL.sub("", str(error))
    if isinstance(error, MtfImagingError):
        return text
    if isinstance(error, KeyboardInterrupt):
        return "interrupted."
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone, as in `mtf-imaging ... | head`
        return ""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    if isinstance(error, RuntimeError) and text.startswith("Required bindings for"):
        return f"{text}. Give each in a gin file, or as --gin.NAME=VALUE."
    if isinstance(error, MemoryError) or type(error).__name__ == "ResourceExhaustedError":  # TensorFlow's
        details = text.splitlines()[:1]
        return "\n  ".join(["out of memory. Fix: a smaller --batch_size, or more devices.", *details])
    return None


def exit_code(error: BaseException) -> int:
    """Returns 2 for what was typed wrong, 130 for an interruption as shells do, 1 for other failures."""
    if isinstance(error, KeyboardInterrupt):
        return 130
    return 2 if isinstance(error, ConfigError | LayoutError) else 1
