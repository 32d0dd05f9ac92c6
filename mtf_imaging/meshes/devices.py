"""The devices that there are: those that compute, and the host's, where whole tensors lie."""

import re
from collections.abc import Sequence

import tensorflow as tf

SERVER_JOB = "worker"  # of the servers that a process has joined
_TASK = re.compile(rf"/job:{SERVER_JOB}/replica:\d+/task:(\d+)")


def default_devices() -> list[str]:
    """All GPUs, else the logical CPUs there are, as device strings: the servers', once this process has joined some."""
    names = {kind: [device.name for device in tf.config.list_logical_devices(kind)] for kind in ("GPU", "CPU")}
    of_servers = {kind: [name for name in found if server_number(name) is not None] for kind, found in names.items()}
    found = of_servers if any(of_servers.values()) else names
    return found["GPU"] or found["CPU"]


def host_device() -> str:
    """The CPU of this process, whatever servers it has joined."""
    return next(device.name for device in tf.config.list_logical_devices("CPU") if server_number(device.name) is None)


def server_number(device: str) -> int | None:
    """The place, in the list of servers, of the one that a device is of; None for a device of this process."""
    match = _TASK.match(device)
    return int(match[1]) if match else None


def number_of(name: str, devices: Sequence[str]) -> int:
    """Which of `devices`, by their number, is the one of that full name; 0 where none is.

    >>> number_of("/job:localhost/replica:0/task:0/device:GPU:1", ["GPU:0", "GPU:1"])
    1
    """
    full = tf.DeviceSpec.from_string(name)
    same = (full.make_merged_spec(tf.DeviceSpec.from_string(device)) == full for device in devices)
    return next((number for number, found in enumerate(same) if found), 0)
