"""What memory a step takes: of a GPU by TensorFlow's account, else of this process by the kernel's (Linux)."""

import contextlib
import ctypes
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

_STATUS = Path("/proc/self/status")


def peak_above(act: Callable[[], object], devices: Sequence[str]) -> int | None:
    """Calls `act` and returns the bytes that it held at most above what was held before; None where that is not known.

    What earlier calls left behind for later ones is given back first, as far as that can be: of the C library's heap.

    Args:
      act: what is measured.
      devices: those that it uses; of several GPUs, what the fullest one held.
    """
    gpus = ["GPU:" + name.rpartition(":")[2] for name in devices if "GPU" in name.upper()]
    if gpus:
        before = {}
        for gpu in gpus:
            tf.config.experimental.reset_memory_stats(gpu)
            before[gpu] = tf.config.experimental.get_memory_info(gpu)["current"]
        act()
        return max(tf.config.experimental.get_memory_info(gpu)["peak"] - held for gpu, held in before.items())
    with contextlib.suppress(OSError, AttributeError):  # of another C library: its heap stays as it is
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on; see proc_pid_clear_refs(5)
        held = _read("VmRSS")
        act()
        return max(0, _read("VmHWM") - held)
    except OSError:  # not Linux
        act()
        return None


def _read(field):
    return int(re.search(rf"^{field}:\s*(\d+) kB", _STATUS.read_text(), re.MULTILINE)[1]) * 1024
