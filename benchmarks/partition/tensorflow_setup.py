"""What the contenders on TensorFlow share: devices, inputs, and what a GPU has held."""

import tensorflow as tf

_GIB = 1024  # TensorFlow counts a logical GPU's memory in MiB


def prepare(processors: int = 1, gpu_gib: int = 8) -> None:
    """Sees to it that there are as many devices as processors; a CPU, or the only GPU, is divided into logical ones."""
    if processors == 1:
        return
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) > 1:
        return
    parts = [tf.config.LogicalDeviceConfiguration(memory_limit=gpu_gib * _GIB if gpus else None)] * processors
    device = gpus[0] if gpus else tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, parts)


def tensors(step) -> tuple:
    """The step's image and labels, in the memory of the host."""
    image, labels = step.inputs()
    with tf.device("CPU:0"):
        return tf.cast(tf.constant(image), step.dtype), tf.constant(labels)


class Memory:
    """What a contender on TensorFlow says of memory, where it has one process."""

    def device_peak(self) -> int | None:
        gpus = [device.name for device in tf.config.list_logical_devices("GPU")]
        peaks = [tf.config.experimental.get_memory_info(gpu.removeprefix("/device:"))["peak"] for gpu in gpus]
        return max(peaks, default=None)

    def others(self) -> dict[str, int]:
        return {}
