"""The training step to measure, its setups, and the memory of a step.

Linux reports the memory of the process, and TensorFlow the memory of tensors.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout, parse_shape
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.step import TrainingStep
from mtf_imaging.training.task import Inputs

_NORM = "bench/gradient_norm"


class Setup(NamedTuple):
    """A layout and its name in tables.

    Attributes:
      name: the name of the setup.
      layout: the layout.
    """

    name: str
    layout: Layout = ONE_PROCESSOR


@dataclasses.dataclass(frozen=True)
class Subject:
    """The subject of a bench.

    Attributes:
      step: the training step.
      mesh_impl: the `mesh_impl` argument of `Program`.
    """

    step: TrainingStep
    mesh_impl: str = "auto"

    def keeping_norm(self) -> TrainingStep:
        """Returns the step with an optimizer that stores the gradient norm in a variable."""
        return dataclasses.replace(self.step, optimizer=NormKeeping(self.step.optimizer))


class NormKeeping(Optimizer):
    """An optimizer that also stores the gradient norm in a variable.

    Args:
      optimizer: the optimizer that updates the weights.
    """

    def __init__(self, optimizer: Optimizer):
        super().__init__(optimizer.learning_rate)
        self._optimizer = optimizer

    def apply(self, gradients, variables):
        dtype = variables[0].master_dtype
        squares = [mtf.reduce_sum(mtf.square(mtf.cast(gradient, dtype))) for gradient in gradients]
        mesh, zeros = variables[0].mesh, tf.zeros_initializer()
        norm = mtf.get_variable(mesh, _NORM, mtf.Shape([]), dtype=dtype, initializer=zeros, trainable=False)
        mtf.assign(norm, mtf.sqrt(mtf.add_n(squares)))
        self._optimizer.apply(gradients, variables)


class MeasuredStep:
    """A training step under a setup, with one random batch that is the same for every setup.

    Attributes:
      devices: the names of the devices in use.
      moved: bytes that all processors together send in a step.
    """

    def __init__(self, subject: Subject, setup: Setup):
        step = subject.keeping_norm()
        self._step = step.build(setup.layout, subject.mesh_impl)
        (self._batch,) = step.split(iter([{**random_batch(step.inputs, step.seed), "cases": ()}]))
        del self._batch["cases"]
        self.devices = list(self._step.network.mesh_impl.devices)
        self.moved = 0
        for program, times in self._step.calls:
            mesh = program.mesh_impl
            self.moved += times * sum(exchange.sent_by_all(mesh.grid.mesh) for exchange in mesh.exchanged)

    @property
    def held(self) -> int:
        """Bytes of the variables: weights and optimizer state."""
        return sum(v.shape.num_elements() * v.dtype.size for v in self._step.program.variables.values())

    @property
    def gradient_norm(self) -> float:
        """The gradient norm in the last step."""
        return float(self._step.program.variables[_NORM].numpy())

    def take(self) -> float:
        """Runs a step and returns the loss before the update."""
        return float(self._step(**self._batch)["loss"].numpy())


def random_batch(inputs: Inputs, seed: int) -> dict[str, np.ndarray]:
    """Returns reproducible random tensors: floats from 0 to 1, and integers 0 or 1, which are valid labels.

    Args:
      inputs: (shape, dtype) by name.
      seed: the seed of the random numbers.
    """
    rng, batch = np.random.default_rng(seed), {}
    for name, (shape, dtype) in inputs.items():
        sizes = [size for _, size in parse_shape(shape, f"shape of input '{name}'")]
        values = rng.random(sizes, np.float32) if dtype.is_floating else rng.integers(0, 2, sizes, np.int8)
        batch[name] = values.astype(dtype.as_numpy_dtype)
    return batch


_STATUS = Path("/proc/self/status")


def peak_above(act: Callable[[], object], devices: Sequence[str]) -> int | None:
    """Calls `act` and returns the peak memory increase in bytes, or None if it cannot be measured.

    Only the first step of a process gives a meaningful value, because later steps reuse memory that TensorFlow keeps.

    Args:
      act: the function to measure.
      devices: the names of the devices in use. For GPUs, the result is the memory of the fullest GPU.
    """
    if _gpus(devices):
        return tensors_above(act, devices)
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak; see proc_pid_clear_refs(5)
        before = _read("VmRSS")
    except OSError:  # not Linux
        act()
        return None
    act()
    return max(0, _read("VmHWM") - before)


def tensors_above(act: Callable[[], object], devices: Sequence[str]) -> int | None:
    """Calls `act` and returns the peak tensor memory increase in bytes, or None if TensorFlow does not report it.

    On CPUs, TensorFlow counts tensors of 256 KiB and more; smaller tensors use an allocator without statistics.

    Args:
      act: the function to measure.
      devices: the names of the devices in use.
    """
    before = {}
    try:
        for device in _gpus(devices) or ["CPU:0"]:  # all logical CPUs share the statistics of CPU:0
            tf.config.experimental.reset_memory_stats(device)
            before[device] = tf.config.experimental.get_memory_info(device)["current"]
    except (ValueError, RuntimeError):
        act()
        return None
    act()
    return max(tf.config.experimental.get_memory_info(device)["peak"] - start for device, start in before.items())


def _gpus(devices):
    return ["GPU:" + name.rpartition(":")[2] for name in devices if "GPU" in name.upper()]


def _read(field):
    return int(re.search(rf"^{field}:\s*(\d+) kB", _STATUS.read_text(), re.MULTILINE)[1]) * 1024
