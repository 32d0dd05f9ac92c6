"""Configures TensorFlow's GPU memory, which must happen before TensorFlow uses a GPU."""

import contextlib

import tensorflow as tf


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
