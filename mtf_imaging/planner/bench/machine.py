"""Measured rates of this machine as `Hardware`, for comparing the cost model with measurements."""

import collections
import math
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from mtf_imaging.engine.meshes.devices import default_devices, device_memory
from mtf_imaging.engine.ops.conv import grouped
from mtf_imaging.engine.ops.conv.operations import Conv, ConvInputGrad
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.training.gradients import FORWARD
from mtf_imaging.training.step import TracedStep

_LARGEST = 64  # voxels along an axis: larger images take longer but do not change the rate
_TENSOR = 2**20, 2**26  # minimum and maximum bytes: an allocator returns larger tensors to the system
_TENSORS = 2**28  # total bytes of all tensors, too many for any cache
_COPIED = 2**26  # bytes
_CHAIN = 200
_OFFLOAD = 1e9  # bytes per second, not measured: a file on a local disk, part of which is in the page cache


class Convolution(NamedTuple):
    """The shapes of a convolution.

    Attributes:
      image: shape of the input, (batch, spatial..., channels).
      kernel: shape of the filter, (spatial..., channels in / groups, channels out).
      strides: the stride along each spatial dimension.
    """

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def flops(self) -> int:
        """Multiplications and additions of the convolution and its two gradients."""
        outputs = math.prod(-(-size // stride) for size, stride in zip(self.image[1:-1], self.strides, strict=True))
        return 3 * 2 * self.image[0] * outputs * math.prod(self.kernel)

    @property
    def clipped(self) -> "Convolution":
        """The same convolution, on an image that is not too large to measure."""
        first, *sizes, channels = self.image
        return self._replace(image=(first, *(min(size, _LARGEST) for size in sizes), channels))


DEFAULT = Convolution((1, _LARGEST, _LARGEST, _LARGEST, 8), (3, 3, 3, 8, 8), (1, 1, 1))


class Kernels(NamedTuple):
    """The kernels of a job to measure.

    Attributes:
      convolutions: {shapes: number of convolutions in the forward pass}.
      tensor: bytes of the largest result of an operation.
    """

    convolutions: Mapping[Convolution, int]
    tensor: int


def kernels_of_step(step: TracedStep) -> Kernels:
    """Returns the kernels of a step without a layout, with a default convolution for a step that has none."""
    count: dict[Convolution, int] = collections.Counter()
    forward = [op for op, phase in step.phases.items() if phase == FORWARD]
    for op in forward:
        if isinstance(op, Conv | ConvInputGrad):  # the latter is a transposed convolution
            x, kernel = op.outputs[0] if isinstance(op, ConvInputGrad) else op.inputs[0], op.inputs[1]
            sizes, num_spatial = x.shape.to_integer_list, kernel.shape.ndims - 2
            *batch, channels = [*sizes[: -num_spatial - 1], sizes[-1]]
            image = math.prod(batch), *sizes[-num_spatial - 1 : -1], channels
            strides = tuple(window.stride for window in op.geometry.windows)
            count[Convolution(image, tuple(kernel.shape.to_integer_list), strides)] += 1
    largest = max((y.shape.size * y.dtype.size for op in forward for y in op.outputs), default=0)
    return Kernels(dict(count) or {DEFAULT: 1}, largest)


class Machine:
    """The first device that a `Program` uses by default, measured one sample at a time.

    Samples between the steps of a bench are subject to the same other load as the steps. The kernels should come from
    the job: the speed of a convolution depends mainly on its channels, and the speed of an elementwise operation on its
    tensor sizes.

    Args:
      kernels: the kernels to measure.
      dtype: dtype of the images and the filters.
    """

    def __init__(self, kernels: Kernels, dtype: str) -> None:
        self._convolutions, self._dtype, self._devices = kernels.convolutions, dtype, default_devices()
        with tf.device(self._devices[0]):
            self._bytes, elementwise = _elementwise(kernels.tensor, dtype)
            self._runs: dict[object, Callable[[], object]] = {
                "elementwise": elementwise,
                "copy": _copy(self._devices),
                "chain": _chain(),
                **{shapes: _convolution(shapes, dtype) for shapes in {each.clipped for each in kernels.convolutions}},
            }
        self._seconds: dict[object, list[float]] = {name: [] for name in self._runs}
        for run in self._runs.values():
            run()  # the first call builds the graph

    def sample(self) -> None:
        """Measures every kernel once."""
        with tf.device(self._devices[0]):
            for name, run in self._runs.items():
                began = time.perf_counter()
                run()
                self._seconds[name].append(time.perf_counter() - began)

    def hardware(self) -> Hardware:
        """Returns the achieved rates; the `Hardware` therefore has shares of 1.

        The convolution rate covers all convolutions together. The link rate is measured by a copy to
        another GPU, or within the memory of the device if there are fewer than two GPUs.
        """
        seconds = {name: statistics.median(samples) for name, samples in self._seconds.items()}
        flops = {each: number * each.flops for each, number in self._convolutions.items()}
        rate = sum(flops.values()) / sum(flops[each] * seconds[each.clipped] / each.clipped.flops for each in flops)
        # `Hardware` assumes that float64 runs at half the rate of float32.
        float32 = rate * 2 if self._dtype == "float64" else rate
        return Hardware(
            "this machine",
            device_memory(self._devices[0]),
            rate,
            float32,
            link=_COPIED / seconds["copy"],
            latency=seconds["chain"] / _CHAIN,
            share=1.0,
            bandwidth=self._bytes / seconds["elementwise"],
            bandwidth_share=1.0,
            offload=_OFFLOAD,
            is_host="GPU" not in self._devices[0].upper(),
        )


def _convolution(shapes, dtype):
    """Returns a function that computes a convolution and its two gradients, as in a training step."""
    x, w = tf.ones(shapes.image, dtype), tf.ones(shapes.kernel, dtype)
    windows = shapes.strides, "SAME", [1] * len(shapes.strides)

    @tf.function(autograph=False)
    def run():
        y = grouped.conv(x, w, *windows)
        dy = tf.ones_like(y)
        dx = grouped.conv_input_grad(x.shape.as_list(), w, dy, *windows)
        dw = grouped.conv_filter_grad(x, w.shape.as_list(), dy, *windows)
        return y[..., :1, :1], dx[..., :1, :1], tf.reduce_sum(dw)  # TensorFlow would prune unused results

    compiled = run.get_concrete_function()  # TensorFlow warns if calls trace many functions with the same name
    return lambda: [value.numpy() for value in compiled()]


def _elementwise(nbytes, dtype):
    """Returns the bytes that a function reads and writes, and the function, which reads two tensors per result."""
    itemsize = tf.as_dtype(dtype).size
    size = min(max(nbytes, _TENSOR[0]), _TENSOR[1]) // itemsize
    tensors = [tf.ones([size], dtype) for _ in range(max(2, _TENSORS // (size * itemsize)))]

    @tf.function(autograph=False)
    def run():
        pairs = zip(tensors, tensors[1:] + tensors[:1], strict=True)
        return [tf.maximum(x, y)[:1] for x, y in pairs]

    return 3 * size * itemsize * len(tensors), lambda: [value.numpy() for value in run()]


def _copy(devices):
    """Returns a function that copies `_COPIED` bytes."""
    gpus = [device for device in devices if "GPU" in device.upper()]
    x = tf.zeros([_COPIED], tf.int8) + tf.ones([], tf.int8)

    def run():
        with tf.device((gpus or devices)[-1]):
            y = tf.identity(x) if len(gpus) > 1 else tf.raw_ops.DeepCopy(x=x)
            y[:1].numpy()

    return run


def _chain():
    """Returns a function with a chain of operations that compute almost nothing."""

    @tf.function(autograph=False)
    def run(x):
        for _ in range(_CHAIN):
            x = tf.sin(x)
        return x

    x = tf.ones([8])
    return lambda: run(x).numpy()
