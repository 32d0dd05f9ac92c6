"""What memory a step takes: of this process by the kernel's account (Linux), and of tensors by TensorFlow's."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

_STATUS = Path("/proc/self/status")


def peak_above(act: Callable[[], object], devices: Sequence[str]) -> int | None:
    """Calls `act`, and returns the bytes held at most above what was held before; None where that is not known.

    Of the first step of a process it says what that takes; later ones find what TensorFlow has kept of the first.

    Args:
      act: what is measured.
      devices: those that it uses. Where they are GPUs, it is their memory: that of the fullest one.
    """
    if _gpus(devices):
        return tensors_above(act, devices)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on; see proc_pid_clear_refs(5)
        held = _read("VmRSS")
    except OSError:  # not Linux
        act()
        return None
    act()
    return max(0, _read("VmHWM") - held)


def tensors_above(act: Callable[[], object], devices: Sequence[str]) -> int | None:
    """The same of tensors alone, by TensorFlow's account: it has none on some systems.

    On CPUs it knows tensors from 256 KiB up: smaller ones have an allocator of their own, which keeps no account.
    """
    before = {}
    try:
        for device in _gpus(devices) or ["CPU:0"]:  # all logical CPUs have one account
            tf.config.experimental.reset_memory_stats(device)
            before[device] = tf.config.experimental.get_memory_info(device)["current"]
    except (ValueError, RuntimeError):
        act()
        return None
    act()
    return max(tf.config.experimental.get_memory_info(device)["peak"] - held for device, held in before.items())


def _gpus(devices):
    return ["GPU:" + name.rpartition(":")[2] for name in devices if "GPU" in name.upper()]


def _read(field):
    return int(re.search(rf"^{field}:\s*(\d+) kB", _STATUS.read_text(), re.MULTILINE)[1]) * 1024
