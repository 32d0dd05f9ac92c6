"""Reads the peak memory of a process."""

import re
import resource
import sys
from pathlib import Path

_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB", re.MULTILINE)


def peak(process: int | None = None) -> int | None:
    """Returns the peak host memory of a process in bytes; None if it is not available.

    Args:
      process: the process ID; None for this process. Only Linux reports the memory of other processes.
    """
    try:
        # Not getrusage: on Linux, its peak starts at the memory of the parent process.
        return int(_PEAK.search(Path(f"/proc/{process or 'self'}/status").read_text())[1]) * 1024
    except (OSError, TypeError):
        if process is not None:
            return None
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
