"""How TensorFlow is to use GPUs, which must be said before it uses the first."""

import contextlib

import tensorflow as tf


def grow_memory() -> None:
    """Has TensorFlow take memory of GPUs as it needs it, not all at once, so that other processes find some, too.

    What a process has set by itself stays, and GPUs that it uses already are left as they are. The environment variable
    TF_FORCE_GPU_ALLOW_GROWTH, which TensorFlow reads, beats this.
    """
    config = tf.config
    gpus = config.list_physical_devices("GPU")
    for gpu in gpus:
        if config.get_logical_device_configuration(gpu) or config.experimental.get_memory_growth(gpu) is not None:
            return
    with contextlib.suppress(RuntimeError):  # they are in use
        for gpu in gpus:
            config.experimental.set_memory_growth(gpu, True)
