"""The step that is measured, and the setups that it is measured under."""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.layout import ONE_PROCESSOR, Layout, parse_shape
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.step import TrainingStep
from mtf_imaging.training.task import Inputs

_NORM = "bench/gradient_norm"


class Setup(NamedTuple):
    """A layout by a name for tables.

    Attributes:
      name: the name.
      layout: the layout.
    """

    name: str
    layout: Layout = ONE_PROCESSOR


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a bench measures.

    Attributes:
      step: the training step.
      mesh_impl: as a `Program` takes it.
    """

    step: TrainingStep
    mesh_impl: str = "auto"

    def keeping_norm(self) -> TrainingStep:
        """Returns the step with the norm of its gradient kept in a variable."""
        return dataclasses.replace(self.step, optimizer=NormKeeping(self.step.optimizer))


class NormKeeping:
    """An optimizer that also keeps the norm of the gradient, in a variable: whatever program it is part of.

    Args:
      optimizer: what moves the weights.
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
    """A step of training under a setup, with one random batch that is the same for every setup.

    Attributes:
      devices: the names of the devices that it uses.
      moved: bytes that all processors together send each other in a step.
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
        """Bytes of the variables: weights, and what the optimizer keeps of them."""
        return sum(v.shape.num_elements() * v.dtype.size for v in self._step.program.variables.values())

    @property
    def gradient_norm(self) -> float:
        """The norm of the last step's gradient."""
        return float(self._step.program.variables[_NORM].numpy())

    def take(self) -> float:
        """Takes a step and returns the loss, from before it."""
        return float(self._step(**self._batch)["loss"].numpy())


def _moved(program):
    mesh = program.mesh_impl
    return sum(exchange.sent_by_all(mesh.grid.mesh) for exchange in mesh.exchanged)


def random_batch(inputs: Inputs, seed: int) -> dict[str, np.ndarray]:
    """Random tensors, the same for one seed: floats from 0 to 1, and integers 0 or 1, which any labels may be.

    Args:
      inputs: (shape, dtype) by name.
      seed: of the numbers.
    """
    rng, batch = np.random.default_rng(seed), {}
    for name, (shape, dtype) in inputs.items():
        sizes = [size for _, size in parse_shape(shape, f"shape of input '{name}'")]
        values = rng.random(sizes, np.float32) if dtype.is_floating else rng.integers(0, 2, sizes, np.int8)
        batch[name] = values.astype(dtype.as_numpy_dtype)
    return batch
