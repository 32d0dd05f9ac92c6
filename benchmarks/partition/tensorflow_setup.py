"""Shared code of the TensorFlow contenders: devices, inputs, and the peak memory of GPUs."""

import tensorflow as tf

_GIB = 1024  # the memory limit of a logical GPU is in MiB


def prepare(processors: int = 1, gpu_gib: int = 8) -> None:
    """Creates one device per processor; a CPU or a single GPU is divided into logical devices."""
    if processors == 1:
        return
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) > 1:
        return
    parts = [tf.config.LogicalDeviceConfiguration(memory_limit=gpu_gib * _GIB if gpus else None)] * processors
    device = gpus[0] if gpus else tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, parts)


def tensors(step) -> tuple:
    """Returns the image and the labels of a step, in host memory."""
    image, labels = step.inputs()
    with tf.device("CPU:0"):
        return tf.cast(tf.constant(image), step.dtype), tf.constant(labels)


class Memory:
    """The memory report of a TensorFlow contender with one process."""

    def device_peak(self) -> int | None:
        gpus = [device.name for device in tf.config.list_logical_devices("GPU")]
        peaks = [tf.config.experimental.get_memory_info(gpu.removeprefix("/device:"))["peak"] for gpu in gpus]
        return max(peaks, default=None)

    def others(self) -> dict[str, int]:
        return {}
