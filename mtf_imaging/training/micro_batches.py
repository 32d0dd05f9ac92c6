"""A step of training in micro-batches, of which only one needs memory at a time."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging import ops
from mtf_imaging.compat import mtf
from mtf_imaging.errors import ConfigError
from mtf_imaging.layout import ONE_PROCESSOR, Layout, format_shape, parse_shape
from mtf_imaging.ops.over_batch import FirstPass, SecondPass, in_pass
from mtf_imaging.program.program import Program
from mtf_imaging.training.gradients import gradients_of
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.task import Inputs, Task, loss_of

_BATCH = "batch"


def part_of(count: int) -> tuple[str, int]:
    """Returns the argument `part_of` of `Program` for one of `count` micro-batches."""
    return _BATCH, count


class SumsOverBatch:
    """Computes the sums over a batch that a loss depends on (`ops.over_batch`), in a separate forward pass.

    Args:
      loss: a function (**inputs) -> Tensor[].
      inputs: {name: (shape string, dtype)} of one micro-batch.
      count: number of micro-batches.
      **options: keyword arguments for `Program`.

    Attributes:
      program: the `Program` that computes the sums of one micro-batch; it has the variables of the loss, even if there
        are no sums.
      specs: {input name: (shape string, dtype)}, one input per sum.
    """

    def __init__(self, loss: Callable[..., mtf.Tensor], inputs: Inputs, count: int, **options: Any) -> None:
        found = FirstPass()
        collected: list[tuple[str, tf.DType]] = []

        def sums(**tensors: mtf.Tensor) -> Any:
            with in_pass(found):
                value = loss(**tensors)
            collected[:] = [(str(format_shape((d.name, d.size) for d in x.shape.dims)), x.dtype) for x in found.sums]
            return tuple(found.sums) or value

        self.program = Program(sums, inputs, part_of=part_of(count), **options | {"updates": "none"})
        self.specs = {f"sum_over_batch_{i}": spec for i, spec in enumerate(collected)}

    def pop(self, tensors: dict[str, mtf.Tensor]) -> list[mtf.Tensor]:
        """Removes the sums from a dict of inputs and returns them."""
        return [tensors.pop(name) for name in self.specs]

    def __call__(self, parts: Sequence[dict[str, Any]]) -> dict[str, tf.Tensor]:
        """Returns {input name: sum over the whole batch}, given the inputs of each micro-batch."""
        if not self.specs:
            return {}
        values = [self.program.call_part(i, **inputs) for i, inputs in enumerate(parts)]
        return {name: tf.add_n(sums) for name, sums in zip(self.specs, zip(*values), strict=True)}


class MicroBatches:
    """A `BuiltStep` of a batch in `count` equal micro-batches: it applies the mean of their gradients.

    The gradient is that of the whole batch, whatever `count` is: dropout draws what it would for the whole, and the
    sums over the batch that a loss depends on (`ops.over_batch`) are computed in a separate forward pass, if there are
    any. Only batch norm differs: it normalizes each part by the statistics of that part, and moves its moving ones
    `count` times a step. Instance and group norm are exact: they look at one case at a time.

    Args:
      task: a `Task`.
      optimizer: an `Optimizer`.
      inputs: {name: (shape string, dtype)} of one part, as `part_inputs` returns them.
      count: number of parts.
      layout: the layout.
      **options: keyword arguments for `Program`: seed, mesh_impl, devices.

    Attributes:
      network: the `Program` of one part's gradients.
      program: the `Program` of the update. It holds all variables and the step, as a program of the whole would.
      calls: pairs (program, calls in one step).
    """

    def __init__(
        self,
        task: Task,
        optimizer: Optimizer,
        inputs: Inputs,
        count: int,
        *,
        layout: Layout = ONE_PROCESSOR,
        **options: Any,
    ) -> None:
        self._count = count
        mesh: dict[str, Any] = {"layout": layout, **options}
        self._sums = SumsOverBatch(lambda **tensors: loss_of(task, tensors)[0], inputs, count, **mesh)
        variables: list[mtf.Variable] = []

        def gradients(**tensors: mtf.Tensor) -> dict[str, Any]:
            with in_pass(SecondPass(self._sums.pop(tensors), count)):
                loss, measures = loss_of(task, tensors)
            variables[:], found = gradients_of(loss)
            found = [mtf.cast(gradient, variable.master_dtype) for variable, gradient in zip(variables, found)]
            return {"measures": {"loss": loss, **measures}, "gradients": found}

        options = {"updates": "variables", "variables": self._sums.program, "part_of": part_of(count)}
        self.network = Program(gradients, inputs | self._sums.specs, **options, **mesh)
        shapes = {
            f"gradient_{i}": (format_shape((d.name, d.size) for d in v.shape.dims), v.master_dtype)
            for i, v in enumerate(variables)
        }

        def update(**gradients: mtf.Tensor) -> mtf.Tensor:
            mesh = next(iter(gradients.values())).mesh
            optimizer.apply(list(gradients.values()), [_same_variable(mesh, v) for v in variables])
            return ops.step(mesh)

        # A layout splits weights only where it has a rule for a dimension of theirs.
        dims = {dim.name for v in variables for dim in v.shape.dims}
        mesh["layout"] = layout.restrict(dims.__contains__)
        self.program = Program(update, shapes, variables=self.network, **mesh)
        self._wanted = list(shapes)
        of_each_part = [self._sums.program, self.network] if self._sums.specs else [self.network]
        self.calls: Sequence[tuple[Program, int]] = [(self.program, 1), *((program, count) for program in of_each_part)]

    def __call__(self, *, parts: Sequence[dict[str, Any]]) -> dict[str, tf.Tensor]:
        """Makes a step.

        Args:
          parts: the inputs of each part, a list of dicts.

        Returns:
          Tensors[] by name, from before the update: "loss" and the task's measures, means over the parts.
        """
        with tf.device(self.program.mesh_impl.host):  # where the results of programs lie; by default on the first GPU
            whole, total = self._sums(parts), None
            for i, inputs in enumerate(parts):
                found = self.network.call_part(i, **inputs, **whole)
                total = found if total is None else tf.nest.map_structure(tf.add, total, found)
            mean = tf.nest.map_structure(lambda x: x / self._count, total)
            self.program(**dict(zip(self._wanted, mean["gradients"])))
            return mean["measures"]


def part_inputs(inputs: Inputs, count: int) -> Inputs:
    """Returns the inputs of one of `count` equal parts of a batch.

    Args:
      inputs: {name: (shape string, dtype)} of the whole batch.
      count: number of parts.

    Raises:
      ConfigError: `count` does not divide the batch.
    """
    parts = {}
    for name, (shape, dtype) in inputs.items():
        dims = dict(parse_shape(shape, f"shape of input '{name}'"))
        if dims.get(_BATCH, 0) % count:
            raise ConfigError(
                f"input '{name}': a batch of {dims[_BATCH]} cannot come in {count} micro-batches of one size. "
                f"Fix: a number of micro_batches that divides {dims[_BATCH]}.",
                settings=["micro_batches"],
            )
        parts[name] = (format_shape((dim, n // count if dim == _BATCH else n) for dim, n in dims.items()), dtype)
    return parts


def in_parts(batches: Iterator[dict[str, Any]], count: int) -> Iterator[dict[str, Any]]:
    """Groups batches by `count`, for a step of `MicroBatches`.

    Args:
      batches: an iterator of dicts: inputs of one part by name, and "cases".
      count: number of parts.

    Yields:
      {"parts": list of dicts of inputs, "cases": those of all parts}.
    """
    while True:
        parts = list(itertools.islice(batches, count))
        cases = [case for part in parts for case in part.pop("cases")]
        yield {"parts": parts, "cases": cases}


def split_batches(batches: Iterator[dict[str, Any]], inputs: Inputs, count: int) -> Iterator[dict[str, Any]]:
    """Cuts whole batches into `count` parts, for a step of `MicroBatches`.

    Args:
      batches: an iterator of dicts: tensors of a whole batch by name, and "cases".
      inputs: {name: (shape string, dtype)} of the whole batch; one without a batch dimension goes to every part.
      count: number of parts.

    Yields:
      As `in_parts`.
    """
    axes = {}
    for name, (shape, _) in inputs.items():
        names = [dim for dim, _ in parse_shape(shape, f"shape of input '{name}'")]
        axes[name] = names.index(_BATCH) if _BATCH in names else None
    for batch in batches:
        with tf.device("CPU:0"):  # a whole batch need not fit on a GPU
            pieces = {
                name: [batch[name]] * count if axis is None else tf.split(batch[name], count, axis)
                for name, axis in axes.items()
            }
        yield {"parts": [{name: pieces[name][i] for name in axes} for i in range(count)], "cases": batch["cases"]}


def _same_variable(mesh: mtf.Mesh, variable: mtf.Variable) -> mtf.Variable:
    """Returns a variable of another program's graph, in this one."""
    dtype = mtf.VariableDType(variable.master_dtype, variable.slice_dtype, variable.activation_dtype)
    zeros = tf.zeros_initializer()  # not used: the variable is there
    mtf.get_variable(mesh, variable.name, variable.shape, dtype=dtype, initializer=zeros)
    return mesh.graph.name_to_variable[variable.name]
