"""Measured rates of this machine as `Hardware`, for comparing the cost model with measurements."""

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_imaging.compat import gpu_memory_limit
from mtf_imaging.meshes.devices import default_devices
from mtf_imaging.ops.conv import grouped
from mtf_imaging.ops.conv.operations import Conv
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.training.gradients import FORWARD
from mtf_imaging.training.step import TracedStep

_LARGEST = 64  # voxels along an axis: larger images take longer without changing the rate
_COPIED = 2**26  # bytes
_CHAIN = 200
_REPEATS = 5


def largest_convolution(step: TracedStep) -> tuple[list[int], list[int]]:
    """Returns the image and filter shapes of the most expensive convolution of a step.

    A step without convolutions gets default shapes.
    """
    convs = [op for op, phase in step.phases.items() if phase == FORWARD and isinstance(op, Conv)]
    if not convs:
        return [1, _LARGEST, _LARGEST, _LARGEST, 8], [3, 3, 3, 8, 8]
    x, kernel = max((op.inputs for op in convs), key=lambda pair: pair[0].shape.size * pair[1].shape.size)
    sizes, num_spatial = x.shape.to_integer_list, kernel.shape.ndims - 2
    *batch, channels = [*sizes[: -num_spatial - 1], sizes[-1]]
    return [math.prod(batch), *sizes[-num_spatial - 1 : -1], channels], kernel.shape.to_integer_list


def measure_machine(image: Sequence[int], kernel: Sequence[int], dtype: str) -> Hardware:
    """Measures the first device that a `Program` uses by default.

    The shapes should come from the job, because the speed of a convolution depends mainly on its channels.

    Args:
      image: shape of the input of a convolution, [batch, spatial..., channels].
      kernel: shape of the filter, [spatial..., channels in / groups, channels out].
      dtype: dtype of the image and the filter.

    Returns:
      A `Hardware` with the achieved rates, so its `share` is 1. The rate of the link is measured by a copy to another
      GPU, or within the memory of the device if there are fewer than two GPUs.
    """
    devices = default_devices()
    with tf.device(devices[0]):
        rate = _convolution_rate(image, kernel, dtype)
        latency = _latency()
    # `Hardware` assumes that float64 runs at half the rate of float32.
    float32 = rate * 2 if dtype == "float64" else rate
    memory = _gpu_memory(devices[0]) or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Hardware("this machine", memory, rate, float32, _copy_rate(devices), latency, share=1.0)


def _convolution_rate(image, kernel, dtype):
    """Returns the operations per second of a convolution and its two gradients, as in a training step."""
    sizes = [image[0], *(min(size, _LARGEST) for size in image[1:-1]), image[-1]]
    x, w = tf.ones(sizes, dtype), tf.ones(kernel, dtype)
    operations = 3 * 2 * x.shape[:-1].num_elements() * w.shape.num_elements()

    ones = [1] * (len(kernel) - 2)
    windows = ones, "SAME", ones

    @tf.function(autograph=False)
    def run():
        y = grouped.conv(x, w, *windows)
        dy = tf.ones_like(y)
        dx = grouped.conv_input_grad(x.shape.as_list(), w, dy, *windows)
        dw = grouped.conv_filter_grad(x, w.shape.as_list(), dy, *windows)
        return y[..., :1, :1], dx[..., :1, :1], tf.reduce_sum(dw)  # TensorFlow would prune unused results

    return operations / _seconds(lambda: [value.numpy() for value in run()])


def _copy_rate(devices):
    """Returns the bytes per second of a copy."""
    gpus = [device for device in devices if "GPU" in device.upper()]
    with tf.device(devices[0]):
        x = tf.zeros([_COPIED], tf.int8) + tf.ones([], tf.int8)

    def run():
        with tf.device((gpus or devices)[-1]):
            y = tf.identity(x) if len(gpus) > 1 else tf.raw_ops.DeepCopy(x=x)
            y[:1].numpy()

    return _COPIED / _seconds(run)


def _latency():
    """Returns the seconds of an operation that computes almost nothing."""

    @tf.function(autograph=False)
    def run(x):
        for _ in range(_CHAIN):
            x = tf.sin(x)
        return x

    x = tf.ones([8])
    return _seconds(lambda: run(x).numpy()) / _CHAIN


def _seconds(run: Callable[[], object]) -> float:
    """Returns the median time of a few calls after a warm-up call."""
    run()
    seconds = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _gpu_memory(device):
    """Returns the bytes of a GPU that TensorFlow may use, or None for other devices."""
    if "GPU" not in device.upper():
        return None
    return gpu_memory_limit(int(device.rpartition(":")[2]))
