"""The training step to measure, and the setups under which it is measured."""

import dataclasses
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


class NormKeeping:
    """An optimizer that also stores the gradient norm in a variable.

    Args:
      optimizer: the optimizer that updates the weights.
    """

    def __init__(self, optimizer: Optimizer):
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
        self.moved = sum(times * _moved(program) for program, times in self._step.calls)

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


def _moved(program):
    mesh = program.mesh_impl
    return sum(exchange.sent_by_all(mesh.grid.mesh) for exchange in mesh.exchanged)


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
