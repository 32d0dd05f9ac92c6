"""Lists devices, those that compute and the host CPU, and sets how GPUs allocate memory."""

import contextlib
from collections.abc import Sequence

import tensorflow as tf

from mtf_imaging.engine.compat import gpu_memory_limit
from mtf_imaging.files.memory import machine_memory


def default_devices() -> list[str]:
    """Returns the device strings of all GPUs, or of all logical CPUs if there is no GPU."""
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return [device.name for device in devices]


def host_device() -> str:
    """Returns the device string of the CPU, of the first one if the process has several logical CPUs."""
    return tf.config.list_logical_devices("CPU")[0].name


def device_memory(device: str) -> int:
    """Returns the bytes of a GPU that TensorFlow may use, or those of the memory of this machine for a CPU."""
    if "GPU" in device.upper():
        return gpu_memory_limit(int(device.rpartition(":")[2]))
    return machine_memory()


def number_of(name: str, devices: Sequence[str]) -> int:
    """Returns the index of the device with a given full name in `devices`, or 0 if it is not among them.

    >>> number_of("/job:localhost/replica:0/task:0/device:GPU:1", ["GPU:0", "GPU:1"])
    1
    """
    full = tf.DeviceSpec.from_string(name)
    matches = (full.make_merged_spec(tf.DeviceSpec.from_string(device)) == full for device in devices)
    return next((number for number, is_match in enumerate(matches) if is_match), 0)


def grow_memory() -> None:
    """Makes TensorFlow allocate GPU memory on demand, so that other processes can use the rest.

    The function does not change a configuration that the process has already set or GPUs that are already in use. The
    environment variable TF_FORCE_GPU_ALLOW_GROWTH of TensorFlow takes precedence.
    """
    config = tf.config
    gpus = config.list_physical_devices("GPU")
    for gpu in gpus:
        if config.get_logical_device_configuration(gpu) or config.experimental.get_memory_growth(gpu) is not None:
            return
    with contextlib.suppress(RuntimeError):  # the GPUs are already in use
        for gpu in gpus:
            config.experimental.set_memory_growth(gpu, True)
