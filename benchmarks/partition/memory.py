"""What memory a process has held at most."""

import re
import resource
import sys
from pathlib import Path

_PEAK = re.compile(r"^VmHWM:\s*(\d+) kB", re.MULTILINE)


def peak(process: int | None = None) -> int | None:
    """Bytes of host memory that a process (by its number; None for this one) has held at most.

    Linux says it of any process; elsewhere it is known of this process alone.
    """
    try:
        # Not getrusage, which on Linux begins with what the parent held when it started this process.
        return int(_PEAK.search(Path(f"/proc/{process or 'self'}/status").read_text())[1]) * 1024
    except (OSError, TypeError):
        if process is not None:
            return None
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
