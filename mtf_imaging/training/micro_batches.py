"""Training steps in micro-batches, which need the memory of one micro-batch at a time."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.engine import ops
from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.layout import ONE_PROCESSOR, Layout, format_shape, parse_shape
from mtf_imaging.engine.ops.over_batch import FirstPass, SecondPass, in_pass
from mtf_imaging.engine.program.program import Program
from mtf_imaging.errors import ConfigError
from mtf_imaging.training.averages import apply_update
from mtf_imaging.training.frozen import NOTHING_FROZEN, Frozen
from mtf_imaging.training.gradients import gradients_of
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.task import Inputs, Task, loss_of

_BATCH = "batch"
_NOTHING = "step"  # the output of an update without results, because a program has at least one


def part_of(count: int) -> tuple[str, int]:
    """Returns the value of `Program`'s argument `part_of` for one of `count` micro-batches."""
    return _BATCH, count


class SumsOverBatch:
    """Computes the sums over a batch that a loss depends on (`ops.over_batch`), in a separate forward pass.

    Args:
      loss: a function (**inputs) -> Tensor[].
      inputs: {name: (shape string, dtype)} of one micro-batch.
      count: number of micro-batches.
      **options: keyword arguments for `Program`.

    Attributes:
      program: the `Program` that computes the sums of one micro-batch. It has the variables of the loss, even if there
        are no sums.
      specs: {input name: (shape string, dtype)}, with one input per sum.
    """

    def __init__(self, loss: Callable[..., mtf.Tensor], inputs: Inputs, count: int, **options: Any) -> None:
        first = FirstPass()
        collected: list[tuple[str, tf.DType]] = []

        def sums(**tensors: mtf.Tensor) -> Any:
            with in_pass(first):
                value = loss(**tensors)
            collected[:] = [(str(format_shape((d.name, d.size) for d in x.shape.dims)), x.dtype) for x in first.sums]
            return tuple(first.sums) or value

        self.program = Program(sums, inputs, part_of=part_of(count), **options | {"updates": "none"})
        self.specs = {f"sum_over_batch_{i}": spec for i, spec in enumerate(collected)}

    def pop(self, tensors: dict[str, mtf.Tensor]) -> list[mtf.Tensor]:
        """Removes the sums from a dict of inputs and returns them."""
        return [tensors.pop(name) for name in self.specs]

    def cut(self, parts: Sequence[dict[str, Any]]) -> list[dict[str, tf.Tensor]]:
        """Cuts this process's slices out of each micro-batch's inputs."""
        return [self.program.cut(**inputs) for inputs in parts]

    def __call__(self, parts: Sequence[dict[str, tf.Tensor]]) -> dict[str, tf.Tensor]:
        """Returns {input name: sum over the whole batch}, as slices of this process.

        Args:
          parts: the inputs of each micro-batch, as returned by `cut`.
        """
        if not self.specs:
            return {}
        values = [self.program.call_slices(i, **inputs) for i, inputs in enumerate(parts)]
        return {name: tf.add_n(sums) for name, sums in zip(self.specs, zip(*values), strict=True)}


class MicroBatches:
    """A `BuiltStep` that divides a batch into `count` equal micro-batches and applies the mean of their gradients.

    The result is the gradient of the whole batch, whatever the number of micro-batches. Dropout draws the same values
    as for the whole batch. If the loss depends on sums over the batch (`ops.over_batch`), a separate forward pass
    computes them. Instance and group norm are exact, because they normalize each case separately. Only batch norm
    differs: it normalizes each micro-batch by the statistics of that micro-batch, and updates its moving statistics
    `count` times per step.

    Args:
      task: a `Task`.
      optimizer: an `Optimizer`.
      inputs: {name: (shape string, dtype)} of one micro-batch, as returned by `part_inputs`.
      count: number of micro-batches.
      layout: the layout.
      variables: a `Program` with which to share variables and step number, or None.
      frozen: the weights that are not trained.
      average_decay: the decay of the weight averages, or None for no averages; see `apply_update`.
      **options: keyword arguments for `Program`: seed, mesh_impl, devices, xla.

    Attributes:
      network: the `Program` that computes the gradients of one micro-batch.
      program: the `Program` that updates the variables. Like the program of a step without micro-batches, it holds all
        variables and the step number.
      calls: pairs (program, number of calls per step).
    """

    def __init__(
        self,
        task: Task,
        optimizer: Optimizer,
        inputs: Inputs,
        count: int,
        *,
        layout: Layout = ONE_PROCESSOR,
        variables: Program | None = None,
        frozen: Frozen = NOTHING_FROZEN,
        average_decay: float | None = None,
        **options: Any,
    ) -> None:
        self._count = count
        mesh: dict[str, Any] = {"layout": layout, **options}
        self._sums = SumsOverBatch(
            lambda **tensors: loss_of(task, tensors, frozen)[0], inputs, count, variables=variables, **mesh
        )
        trained: list[mtf.Variable] = []

        def gradients(**tensors: mtf.Tensor) -> dict[str, Any]:
            with in_pass(SecondPass(self._sums.pop(tensors), count)):
                loss, measures = loss_of(task, tensors, frozen)
            trained[:], values = gradients_of(loss)
            values = [mtf.cast(value, variable.master_dtype) for variable, value in zip(trained, values)]
            return {"measures": {"loss": loss, **measures}, "gradients": values}

        options = {"updates": "variables", "variables": self._sums.program, "part_of": part_of(count)}
        self.network = Program(gradients, inputs | self._sums.specs, **options, **mesh)
        shapes = {
            f"gradient_{i}": (format_shape((d.name, d.size) for d in v.shape.dims), v.master_dtype)
            for i, v in enumerate(trained)
        }

        def update(**gradients: mtf.Tensor) -> dict[str, mtf.Tensor]:
            mesh = next(iter(gradients.values())).mesh
            variables = [_same_variable(mesh, v) for v in trained]
            norms = apply_update(optimizer, list(gradients.values()), variables, average_decay)
            return norms or {_NOTHING: ops.step(mesh)}

        # The update needs only the rules for dimensions of the weights.
        dims = {dim.name for v in trained for dim in v.shape.dims}
        weights = layout.restrict(dims.__contains__)
        if self.network.mesh_impl.transport.is_between_processes:
            # Both programs cut a gradient into the same slices only if they have the same mesh.
            weights = Layout(layout.mesh_shape, weights.rules, layout.sequential, layout.offload_dir)
        mesh["layout"] = weights
        self.program = Program(update, shapes, variables=self.network, may_repeat=True, **mesh)
        self._wanted = list(shapes)
        of_each_part = [self._sums.program, self.network] if self._sums.specs else [self.network]
        self.calls: Sequence[tuple[Program, int]] = [(self.program, 1), *((program, count) for program in of_each_part)]

    def __call__(self, *, parts: Sequence[dict[str, Any]]) -> dict[str, tf.Tensor]:
        """Computes one training step.

        Args:
          parts: a list of dicts with the inputs of each micro-batch.

        Returns:
          Tensors[] by name: "loss" and the task's measures from before the update, as means over the micro-batches;
          and GRADIENT_NORM if the optimizer clips gradients.
        """
        return self.call_slices(parts=self._sums.cut(parts))

    def call_slices(self, *, parts: Sequence[dict[str, Any]]) -> dict[str, tf.Tensor]:
        """Computes one training step on the regions of this process; see `__call__`.

        Args:
          parts: a list with one dict per micro-batch, which contains this process's region of each input.
        """
        with tf.device(self.program.mesh_impl.host):  # sum on the device of the results, not on the default GPU
            whole, total = self._sums(parts), None
            for i, inputs in enumerate(parts):
                result = self.network.call_slices(i, **inputs, **whole)
                total = result if total is None else tf.nest.map_structure(tf.add, total, result)
            mean = tf.nest.map_structure(lambda x: x / self._count, total)
            norms = self.program.call_slices(**dict(zip(self._wanted, mean["gradients"])))
            norms.pop(_NOTHING, None)
            return {**norms, **mean["measures"]}


def part_inputs(inputs: Inputs, count: int) -> Inputs:
    """Returns the inputs of one of `count` equal micro-batches.

    Args:
      inputs: {name: (shape string, dtype)} of the whole batch.
      count: number of micro-batches.

    Raises:
      ConfigError: `count` does not divide the batch size.
    """
    parts = {}
    for name, (shape, dtype) in inputs.items():
        dims = dict(parse_shape(shape, f"shape of input '{name}'"))
        if dims.get(_BATCH, 0) % count:
            raise ConfigError(
                f"input '{name}': a batch of {dims[_BATCH]} cannot be split into {count} equal micro-batches. "
                f"Fix: set micro_batches to a divisor of {dims[_BATCH]}.",
                settings=["micro_batches"],
            )
        parts[name] = (format_shape((dim, n // count if dim == _BATCH else n) for dim, n in dims.items()), dtype)
    return parts


def in_parts(batches: Iterator[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    """Groups `count` micro-batches at a time into the input of a `MicroBatches` step.

    Args:
      batches: an iterator of dicts with the inputs of one micro-batch by name, and "cases".
      count: number of micro-batches.

    Yields:
      {"parts": list of dicts of inputs, "cases": the cases of all micro-batches}.
    """
    while True:
        yield grouped(list(itertools.islice(batches, count)))


def grouped(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the input of a `MicroBatches` step for its micro-batches, dicts of inputs and "cases"."""
    cases = [case for part in parts for case in part.pop("cases")]
    return {"parts": parts, "cases": cases}


def split_batches(batches: Iterator[dict[str, Any]], inputs: Inputs, count: int) -> Iterator[dict[str, Any]]:
    """Cuts whole batches into `count` micro-batches for a `MicroBatches` step.

    Args:
      batches: an iterator of dicts with the tensors of a whole batch by name, and "cases".
      inputs: {name: (shape string, dtype)} of the whole batch. An input without a batch dimension goes to every
        micro-batch.
      count: number of micro-batches.

    Yields:
      {"parts": list of dicts of inputs, "cases": the cases of all micro-batches}.
    """
    axes = {}
    for name, (shape, _) in inputs.items():
        names = [dim for dim, _ in parse_shape(shape, f"shape of input '{name}'")]
        axes[name] = names.index(_BATCH) if _BATCH in names else None
    for batch in batches:
        with tf.device("CPU:0"):  # a whole batch may not fit on a GPU
            pieces = {
                name: [batch[name]] * count if axis is None else tf.split(batch[name], count, axis)
                for name, axis in axes.items()
            }
        yield {"parts": [{name: pieces[name][i] for name in axes} for i in range(count)], "cases": batch["cases"]}


def _same_variable(mesh: mtf.Mesh, variable: mtf.Variable) -> mtf.Variable:
    """Returns the variable of the current graph that has the same name as a variable of another program."""
    dtype = mtf.VariableDType(variable.master_dtype, variable.slice_dtype, variable.activation_dtype)
    zeros = tf.zeros_initializer()  # never called: the variable already has a value
    mtf.get_variable(mesh, variable.name, variable.shape, dtype=dtype, initializer=zeros)
    return mesh.graph.name_to_variable[variable.name]
