"""Lists devices: the devices that compute, and the host CPU, which stores whole tensors."""

import re
from collections.abc import Sequence

import tensorflow as tf

SERVER_JOB = "worker"  # the job name of the servers to which a process is connected
PROCESS_JOB = "process"  # the job name of processes that run one program together
_TASK = re.compile(rf"/job:{SERVER_JOB}/replica:\d+/task:(\d+)")


def default_devices() -> list[str]:
    """Returns the device strings of all GPUs, or of all logical CPUs if there is no GPU.

    If this process is connected to servers, only the devices of the servers count.
    """
    names = {kind: [device.name for device in tf.config.list_logical_devices(kind)] for kind in ("GPU", "CPU")}
    remote = {kind: [name for name in local if server_number(name) is not None] for kind, local in names.items()}
    usable = remote if any(remote.values()) else names
    return usable["GPU"] or usable["CPU"]


def host_device() -> str:
    """Returns the device string of this process's CPU, even if the process is connected to servers."""
    return next(device.name for device in tf.config.list_logical_devices("CPU") if server_number(device.name) is None)


def server_number(device: str) -> int | None:
    """Returns the index of the server that a device belongs to, or None for a device of this process."""
    match = _TASK.match(device)
    return int(match[1]) if match else None


def number_of(name: str, devices: Sequence[str]) -> int:
    """Returns the index of the device with a given full name in `devices`, or 0 if it is not among them.

    >>> number_of("/job:localhost/replica:0/task:0/device:GPU:1", ["GPU:0", "GPU:1"])
    1
    """
    full = tf.DeviceSpec.from_string(name)
    matches = (full.make_merged_spec(tf.DeviceSpec.from_string(device)) == full for device in devices)
    return next((number for number, is_match in enumerate(matches) if is_match), 0)
