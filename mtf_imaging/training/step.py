"""One training step, which can be built to train, or traced to examine its cost."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout, TensorRegion, parse_shape
from mtf_imaging.engine.ops.over_batch import FirstPass, in_pass
from mtf_imaging.engine.program.program import Program
from mtf_imaging.engine.program.tracing import Traced, trace_only
from mtf_imaging.errors import ConfigError
from mtf_imaging.parameters import check_value
from mtf_imaging.training.frozen import Frozen
from mtf_imaging.training.gradients import BACKWARD, FORWARD, UPDATE, training_step
from mtf_imaging.training.micro_batches import MicroBatches, in_parts, part_inputs, split_batches
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.task import Inputs, Task, loss_of, task_inputs


class BuiltStep(Protocol):
    """A callable training step, which maps the inputs of a batch to the loss and the task's measures.

    A call takes whole inputs. `call_slices` takes only this process's region of each input, so that no process holds a
    whole batch.

    Attributes:
      program: the `Program` that holds all variables and the step number.
      network: the `Program` that computes the gradients.
      calls: pairs (program, number of calls per step) for all programs of a step.
    """

    program: Program
    network: Program
    calls: Sequence[tuple[Program, int]]

    def __call__(self, *args: Any, **batch: Any) -> dict[str, Any]: ...

    def call_slices(self, *args: Any, **batch: Any) -> dict[str, Any]: ...


class TracedStep(NamedTuple):
    """A training step as a graph over named tensors, without any allocated values.

    Attributes:
      traced: the graph.
      phases: {operation: FORWARD, BACKWARD or UPDATE} for all operations that the step needs, in graph order.
      parts: number of passes through the network per step, one for each micro-batch.
      forward_passes: number of forward passes for each backward pass.
    """

    traced: Traced
    phases: dict[mtf.Operation, str]
    parts: int
    forward_passes: int


@dataclasses.dataclass(frozen=True)
class WeightRules:
    """What a step does with weights, besides the update of the optimizer.

    Attributes:
      frozen: the weights that are not trained, as patterns of names; see `Frozen`.
      average_decay: the decay of the weight averages, or None for no averages; see `averages.apply_update`.

    Raises:
      ConfigError: the decay is not from 0 to 1, or the patterns are not strings.
    """

    frozen: str | Sequence[str] = ()
    average_decay: float | None = None

    def __post_init__(self) -> None:
        Frozen(self.frozen)
        check_value("average_decay", self.average_decay, float | None, ["average_decay"], below=1)


@dataclasses.dataclass(frozen=True)
class TrainingStep:
    """The description of a training step without a layout, for training, the planner and the benchmarks.

    Attributes:
      task: a `Task`: the network and its loss.
      optimizer: the optimizer.
      sizes: voxels of an image along its spatial dimensions.
      batch_size: images in a step, summed over all processors.
      micro_batches: number of equal pieces of the batch. The pieces are computed one after the other, so a step needs
        the memory of one piece.
      dtype: the dtype of images and activations.
      seed: the seed of variables and random operations.
      weights: the weights that are frozen, and the averages of weights.
      xla: whether XLA compiles the programs.

    Raises:
      ConfigError: the optimizer is not an `Optimizer`.
    """

    task: Task
    optimizer: Optimizer
    sizes: tuple[int, ...]
    batch_size: int = 1
    micro_batches: int = 1
    dtype: str = "float32"
    seed: int = 0
    weights: WeightRules = WeightRules()
    xla: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.optimizer, Optimizer):
            raise ConfigError(
                f"optimizer must be an Optimizer of mi.training.optimizers, not {self.optimizer!r}. "
                "Fix: pass one, such as Adam(); your own optimizers derive from Optimizer.",
                ["optimizer"],
            )

    @functools.cached_property
    def inputs(self) -> Inputs:
        """The inputs of a whole batch, {name: (shape string, dtype)}."""
        return task_inputs(self.task, self.batch_size, self.sizes, dtype=self.dtype)

    @functools.cached_property
    def part_inputs(self) -> Inputs:
        """The inputs of one micro-batch, {name: (shape string, dtype)}.

        Raises:
          ConfigError: `micro_batches` does not divide the batch size.
        """
        return part_inputs(self.inputs, self.micro_batches)

    def resized(self, sizes: tuple[int, ...]) -> "TrainingStep":
        """Returns the same step for images of another size."""
        return dataclasses.replace(self, sizes=tuple(sizes))

    def build(
        self,
        layout: Layout = ONE_PROCESSOR,
        mesh_impl: str = "auto",
        devices: Sequence[str] | None = None,
        variables: Program | None = None,
    ) -> BuiltStep:
        """Builds the programs of the step.

        Args:
          layout: the layout.
          mesh_impl: the mesh implementation, as in `Program`.
          devices: device strings, as in `Program`.
          variables: a `Program` with which to share variables and step number, or None.
        """
        options: dict[str, Any] = {"layout": layout, "mesh_impl": mesh_impl, "devices": devices, "seed": self.seed}
        options |= {"variables": variables, "xla": self.xla}
        frozen, decay = Frozen(self.weights.frozen), self.weights.average_decay
        if self.micro_batches > 1:
            options |= {"frozen": frozen, "average_decay": decay}
            return MicroBatches(self.task, self.optimizer, self.part_inputs, self.micro_batches, **options)
        step = training_step(self.task, self.optimizer, frozen=frozen, average_decay=decay)
        return _WholeBatch(Program(step, self.inputs, **options))

    def trace(self, layout: Layout = ONE_PROCESSOR, devices: Sequence[str] = ("CPU:0",)) -> TracedStep:
        """Traces the step without allocating its tensors.

        Args:
          layout: the layout, which is not checked.
          devices: names of the devices that hold the variables.
        """
        ends: dict[str, int] = {}
        step = training_step(
            self.task,
            self.optimizer,
            lambda phase, graph: ends.update({phase: len(graph.operations)}),
            Frozen(self.weights.frozen),
            self.weights.average_decay,
        )
        traced = trace_only(step, self.part_inputs, layout, devices)
        operations = traced.graph.operations
        phase = dict.fromkeys(operations, UPDATE)
        phase |= dict.fromkeys(operations[: ends[BACKWARD]], BACKWARD)
        phase |= dict.fromkeys(operations[: ends[FORWARD]], FORWARD)
        forward_passes = 2 if self.micro_batches > 1 and self._sums_over_batch(layout) else 1
        phases = {op: phase[op] for op in traced.needed}
        return TracedStep(traced, phases, self.micro_batches, forward_passes)

    def _sums_over_batch(self, layout: Layout) -> bool:
        """Whether the loss depends on sums over the whole batch, which require a separate forward pass."""
        first = FirstPass()

        def loss(**tensors: mtf.Tensor) -> mtf.Tensor:
            with in_pass(first):
                return loss_of(self.task, tensors, Frozen(self.weights.frozen))[0]

        trace_only(loss, self.part_inputs, layout)
        return bool(first.sums)

    def batches(self, make: Callable[[int, int, Inputs], Iterator[dict]], start: int, by_part: bool) -> Iterator[dict]:
        """Returns an iterator over the inputs for a built step, starting with step `start`.

        Args:
          make: a function (batch size, number of the first batch, inputs) -> iterator of batches, as returned by
            `training.data_set.data_batches`.
          start: number of the first step.
          by_part: whether to read each micro-batch as a small batch, which requires that the order of the images does
            not depend on the batch size. Otherwise, whole batches are read and cut.
        """
        count = self.micro_batches
        if count == 1:
            return make(self.batch_size, start, self.inputs)
        if by_part:
            return in_parts(make(self.batch_size // count, start * count, self.part_inputs), count)
        return self.split(make(self.batch_size, start, self.inputs))

    def split(self, batches: Iterator[dict]) -> Iterator[dict]:
        """Converts whole batches to the inputs of a built step."""
        return batches if self.micro_batches == 1 else split_batches(batches, self.inputs, self.micro_batches)


def input_regions(program: Program, inputs: Inputs) -> dict[str, TensorRegion]:
    """Returns the region of each input that this process passes to `call_slices` of a program.

    Args:
      program: the program; `BuiltStep.network` for a training step.
      inputs: {name: (shape string, dtype)} of the inputs; `TrainingStep.part_inputs` for a training step.
    """
    sizes = {name: tuple(size for _, size in parse_shape(shape, name)) for name, (shape, _) in inputs.items()}
    return {name: TensorRegion(sizes[name], program.region(name)) for name in inputs}


class _WholeBatch:
    """A `BuiltStep` that consists of one program."""

    def __init__(self, program: Program) -> None:
        self.program = self.network = program
        self.calls: Sequence[tuple[Program, int]] = [(program, 1)]

    def __call__(self, **batch: object) -> dict[str, Any]:
        return self.call_slices(**self.program.cut(**batch))

    def call_slices(self, **batch: object) -> dict[str, Any]:
        return self.program.call_slices(**batch)  # the results are scalars, so they are whole
