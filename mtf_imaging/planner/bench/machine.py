"""This machine as `Hardware`, by a few seconds of measuring: for a model to be held against what it models."""

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from mtf_imaging.compat import gpu_memory_limit
from mtf_imaging.meshes.devices import default_devices
from mtf_imaging.ops.conv.convolution import Conv
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.training.gradients import FORWARD
from mtf_imaging.training.step import TracedStep

_LARGEST = 64  # voxels along an axis: more take longer, at the same rate
_COPIED = 2**26  # bytes
_CHAIN = 200
_REPEATS = 5


def largest_convolution(step: TracedStep) -> tuple[list[int], list[int]]:
    """Shapes of the image and of the filter of that convolution of a step which computes most; some, if it has none."""
    convs = [op for op, phase in step.phases.items() if phase == FORWARD and isinstance(op, Conv)]
    if not convs:
        return [1, _LARGEST, _LARGEST, _LARGEST, 8], [3, 3, 3, 8, 8]
    x, kernel = max((op.inputs for op in convs), key=lambda pair: pair[0].shape.size * pair[1].shape.size)
    sizes, num_spatial = x.shape.to_integer_list, kernel.shape.ndims - 2
    *batch, channels = [*sizes[: -num_spatial - 1], sizes[-1]]
    return [math.prod(batch), *sizes[-num_spatial - 1 : -1], channels], kernel.shape.to_integer_list


def measure_machine(image: Sequence[int], kernel: Sequence[int], dtype: str) -> Hardware:
    """Measures the first of the devices that a `Program` would use by default.

    Args:
      image: shape of what a convolution reads, [batch, spatial..., channels].
      kernel: of its filter, [spatial..., channels in, channels out]. Both are of the job's own: how fast a convolution
        runs depends on its channels before all.
      dtype: of both.

    Returns:
      Rates that were achieved, so with a share of 1. The link is a copy: to the next GPU where there is one, else
      within the memory of the device.
    """
    devices = default_devices()
    with tf.device(devices[0]):
        rate = _convolution_rate(image, kernel, dtype)
        latency = _latency()
    # Of float64 `Hardware` takes half of what it is told of float32.
    float32 = rate * 2 if dtype == "float64" else rate
    memory = _gpu_memory(devices[0]) or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Hardware("this machine", memory, rate, float32, _copy_rate(devices), latency, share=1.0)


def _convolution_rate(image, kernel, dtype):
    """Operations a second of a convolution with both of its gradients, as a step has them."""
    sizes = [image[0], *(min(size, _LARGEST) for size in image[1:-1]), image[-1]]
    x, w = tf.ones(sizes, dtype), tf.ones(kernel, dtype)
    operations = 3 * 2 * x.shape[:-1].num_elements() * w.shape.num_elements()

    @tf.function(autograph=False)
    def run():
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.nn.convolution(x, w, padding="SAME")
        dx, dw = tape.gradient(y, [x, w])
        return y[..., :1, :1], dx[..., :1, :1], tf.reduce_sum(dw)  # of each, or it would not be computed

    return operations / _seconds(lambda: [value.numpy() for value in run()])


def _copy_rate(devices):
    """Bytes a second."""
    gpus = [device for device in devices if "GPU" in device.upper()]
    with tf.device(devices[0]):
        x = tf.zeros([_COPIED], tf.int8) + tf.ones([], tf.int8)

    def run():
        with tf.device((gpus or devices)[-1]):
            y = tf.identity(x) if len(gpus) > 1 else tf.raw_ops.DeepCopy(x=x)
            y[:1].numpy()

    return _COPIED / _seconds(run)


def _latency():
    """Seconds of an operation that computes next to nothing."""

    @tf.function(autograph=False)
    def run(x):
        for _ in range(_CHAIN):
            x = tf.sin(x)
        return x

    x = tf.ones([8])
    return _seconds(lambda: run(x).numpy()) / _CHAIN


def _seconds(run: Callable[[], object]) -> float:
    """The median of a few calls, after one that is not counted."""
    run()
    found = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def _gpu_memory(device):
    """Bytes of a GPU that TensorFlow may have; None for another device."""
    if "GPU" not in device.upper():
        return None
    return gpu_memory_limit(int(device.rpartition(":")[2]))
