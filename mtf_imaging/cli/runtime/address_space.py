"""Compares this process's address space limit with the space that its libraries need.

Beyond the limit, OpenBLAS requests memory in an endless loop that no signal ends, and TensorFlow ends the process or
waits for threads that failed to start.
"""

import os

from mtf_imaging.errors import OutOfMemoryError
from mtf_imaging.plain_text import counted

# {libraries: bytes for them, measured on 2 cores, and for the stacks and buffers of the threads of a core}. A program
# with a convolution took 2.0 GiB with 2 threads of each kind, 2.7 GiB with 8 and 3.1 GiB with 32.
_NEEDED = {"NumPy and SciPy": (512 << 20, 128 << 20), "TensorFlow": (3328 << 20, 128 << 20)}
_MEBIBYTE = 1 << 20


def check_address_space(name: str) -> None:
    """Checks the limit for a command.

    Args:
      name: the libraries: "NumPy and SciPy", which all commands use, or "TensorFlow".

    Raises:
      OutOfMemoryError: the limit is too low.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    whole, per_core = _NEEDED[name]
    needed = whole + cores * per_core
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise OutOfMemoryError(
            f"out of memory: ulimit -v limits this process to {limit // _MEBIBYTE:,} MiB of address space, but {name} "
            f"on {counted(cores, 'core')} needs about {needed // _MEBIBYTE:,} MiB, of which most stays unused. Fix: "
            f"raise the limit with ulimit -v {needed // 1024} or more, or use fewer cores, for instance with taskset."
        )
