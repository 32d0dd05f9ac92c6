"""The step that is measured, and the setups that it is measured under."""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from mtf_imaging.compat import mtf
from mtf_imaging.layout import parse_shape
from mtf_imaging.program.program import Program
from mtf_imaging.training.micro_batches import MicroBatches, part_inputs, split_batches
from mtf_imaging.training.step import training_step
from mtf_imaging.training.task import Task

_NORM = "bench/gradient_norm"


class Setup(NamedTuple):
    """A mesh and a layout, by the name that the user gave them."""

    name: str
    mesh_shape: str
    layout: str


@dataclasses.dataclass(frozen=True)
class Subject:
    """The step of a job.

    Attributes:
      task: a `Task`.
      optimizer: an `Optimizer`.
      inputs: of a whole batch, (shape, dtype) by name.
      parts: micro-batches.
      mesh_impl: as a `Program` takes it.
      seed: of weights, random operations and the batch.
    """

    task: Task
    optimizer: object
    inputs: dict
    parts: int
    mesh_impl: str
    seed: int


class NormKeeping:
    """An optimizer that also keeps the norm of the gradient, in a variable: whatever program it is part of.

    Args:
      optimizer: what moves the weights.
    """

    def __init__(self, optimizer):
        self._optimizer = optimizer

    def apply(self, gradients, variables):
        dtype = variables[0].master_dtype
        squares = [mtf.reduce_sum(mtf.square(mtf.cast(gradient, dtype))) for gradient in gradients]
        mesh, zeros = variables[0].mesh, tf.zeros_initializer()
        norm = mtf.get_variable(mesh, _NORM, mtf.Shape([]), dtype=dtype, initializer=zeros, trainable=False)
        mtf.assign(norm, mtf.sqrt(mtf.add_n(squares)))
        self._optimizer.apply(gradients, variables)


class BuiltStep:
    """A step of training, built as train builds it, with one batch that every setup gets alike.

    Attributes:
      devices: names of those that it uses.
      moved: bytes that processors send each other in a step, all together, of what was lowered.
    """

    def __init__(self, subject: Subject, setup: Setup):
        optimizer, count = NormKeeping(subject.optimizer), subject.parts
        options = {"seed": subject.seed, "mesh_impl": subject.mesh_impl}
        options |= {"mesh_shape": setup.mesh_shape, "layout": setup.layout}
        inputs, batch = part_inputs(subject.inputs, count), random_batch(subject.inputs, subject.seed)
        if count == 1:
            self._program = self._step = network = Program(training_step(subject.task, optimizer), inputs, **options)
            self._batch = batch
            self.moved = _moved(network)
        else:
            self._step = MicroBatches(subject.task, optimizer, inputs, count, **options)
            self._program, network = self._step.program, self._step.gradients
            (in_parts,) = split_batches([{**batch, "cases": ()}], subject.inputs, count)
            self._batch = {"parts": in_parts["parts"]}
            self.moved = _moved(self._program) + count * sum(map(_moved, self._step.of_each_part))
        self.devices = list(network.mesh_impl.devices)

    @property
    def held(self) -> int:
        """Bytes of the variables: weights, and what the optimizer keeps of them."""
        return sum(v.shape.num_elements() * v.dtype.size for v in self._program.variables.values())

    @property
    def gradient_norm(self) -> float:
        """Of the gradient of the last step."""
        return float(self._program.variables[_NORM].numpy())

    def take(self) -> float:
        """Takes a step and returns the loss, from before it."""
        return float(self._step(**self._batch)["loss"].numpy())


def _moved(program):
    mesh = program.mesh_impl
    return sum(exchange.sent_by_all(mesh.grid.mesh) for exchange in mesh.exchanged)


def random_batch(inputs: dict, seed: int) -> dict[str, np.ndarray]:
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
