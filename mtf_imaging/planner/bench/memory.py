"""Memory of a step: process memory as reported by the Linux kernel, and tensor memory as reported by TensorFlow."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

_STATUS = Path("/proc/self/status")


def peak_above(act: Callable[[], object], devices: Sequence[str]) -> int | None:
    """Calls `act` and returns the peak memory increase in bytes, or None if it cannot be measured.

    Only the first step of a process gives a meaningful value, because later steps reuse memory that TensorFlow keeps.

    Args:
      act: the function to measure.
      devices: the names of the devices in use. For GPUs, the result is the memory of the fullest GPU.
    """
    if _gpus(devices):
        return tensors_above(act, devices)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak; see proc_pid_clear_refs(5)
        before = _read("VmRSS")
    except OSError:  # not Linux
        act()
        return None
    act()
    return max(0, _read("VmHWM") - before)


def tensors_above(act: Callable[[], object], devices: Sequence[str]) -> int | None:
    """Calls `act` and returns the peak tensor memory increase in bytes, or None if TensorFlow does not report it.

    On CPUs, TensorFlow counts tensors of 256 KiB and more; smaller tensors use an allocator without statistics.

    Args:
      act: the function to measure.
      devices: the names of the devices in use.
    """
    before = {}
    try:
        for device in _gpus(devices) or ["CPU:0"]:  # all logical CPUs share the statistics of CPU:0
            tf.config.experimental.reset_memory_stats(device)
            before[device] = tf.config.experimental.get_memory_info(device)["current"]
    except (ValueError, RuntimeError):
        act()
        return None
    act()
    return max(tf.config.experimental.get_memory_info(device)["peak"] - start for device, start in before.items())


def _gpus(devices):
    return ["GPU:" + name.rpartition(":")[2] for name in devices if "GPU" in name.upper()]


def _read(field):
    return int(re.search(rf"^{field}:\s*(\d+) kB", _STATUS.read_text(), re.MULTILINE)[1]) * 1024
