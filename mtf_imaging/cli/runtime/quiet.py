"""Imports TensorFlow without the lines that it logs about itself."""

import contextlib
import os
import sys
import tempfile

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_SILENT = "3"


def import_tensorflow() -> None:
    """Imports TensorFlow, silently unless TF_CPP_MIN_LOG_LEVEL is set: whoever sets it wants to see what it says.

    GPUs are set up, too, before anything can use them.
    """
    quiet = os.environ.setdefault(_LEVEL, _SILENT) == _SILENT  # also where the process that began this one set it
    with _held_back_stderr() if quiet else contextlib.nullcontext():  # some lines come before the level is looked at
        from mtf_imaging.meshes.gpus import grow_memory

        grow_memory()


@contextlib.contextmanager
def _held_back_stderr():
    """Keeps what is written to file descriptor 2, by C++ too, and shows it only if the body fails."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(kept, held.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
