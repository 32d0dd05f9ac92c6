"""A function over named tensors, compiled once for a mesh of processors and a layout."""

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from mtf_imaging.errors import LayoutError, ShapeError
from mtf_imaging.layout import Layout, format_shape
from mtf_imaging.meshes import make_mesh_impl
from mtf_imaging.meshes.random.numbers import Part, RandomState
from mtf_imaging.ops.reshard import LayoutChange, layout_changes
from mtf_imaging.program import lowering, memory, tracing
from mtf_imaging.program.variables import Variables

_logger = logging.getLogger(__name__)


class Program(tf.Module):
    """Lowers `fn` for a mesh and a layout, once, into one `tf.function`.

    `fn` is called by keyword with an `mtf.Tensor` for each input and returns an `mtf.Tensor`, or a tuple or dict of
    them. Every `mtf.Assign` that it makes runs once a call, after all variables are read: outputs are values before the
    update. Initial values of variables depend on (seed, variable name) alone, and random operations on (seed, step,
    operation, position in the whole tensor): a layout changes speed and memory, never results.

    Programs are thread-safe, also if they share variables. Calls run one after the other, so no call reads a variable
    while another call assigns to it, and no update is lost.

    `tf.train.Checkpoint(program=p)` holds whole variables and the step, and is free of the layout.

    Args:
      fn: the function.
      inputs: for each input its shape, `"batch:1,x:12,channels:3"` (float32), or a pair (shape, dtype).
      mesh_shape: the mesh of processors, `"rows:2,cols:2"`; `""` is one processor.
      layout: which tensor dimension is split over which mesh dimension, `"x:rows,y:cols"`; or a `Layout`, which has
        the mesh, too.
      mesh_impl: "stacked", "placement" or "auto"; see `mtf_imaging.meshes.make_mesh_impl`.
      devices: device strings; default: all GPUs, else the logical CPUs there are.
      seed: an int.
      variables: a `Program` whose variables and step this one shares.
      updates: what of the assignments that `fn` makes is done: "all", and the step counts; "variables" alone, for a
        call that is only a part of a step; or "none".
      part_of: where a call computes one of several equal parts of a dimension: its name and the number of parts. The
        call is made by `call_part`, and random operations draw what they would for this part of the whole.

    Attributes:
      layout: the `Layout`.
      variables: dict of mtf names to `tf.Variable`s.
      step: int64 `tf.Variable`, one more for each call that assigns.
      mesh_impl: the mesh implementation.
      function: the compiled `tf.ConcreteFunction`.
      changes: `LayoutChange`s, where slices change within the program; see `mtf_imaging.ops.gather_slices`.

    Raises:
      LayoutError: all faults of the layout, before any device is used.
      OutOfMemoryError: a device cannot hold what the program needs; calls raise it, too.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        inputs: Mapping[str, tracing.Spec],
        mesh_shape: str = "",
        layout: Layout | str = "",
        mesh_impl: str = "auto",
        devices: Sequence[str] | None = None,
        seed: int = 0,
        variables: "Program | None" = None,
        name: str | None = None,
        *,
        updates: str = "all",
        part_of: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(name=name)
        self._inputs = {key: tracing.Input(key, spec) for key, spec in inputs.items()}
        self._part_of = part_of
        self._demand: memory.Demand | None = None
        self.layout, self.seed = Layout.of(layout, mesh_shape), seed
        self.mesh_impl = make_mesh_impl(mesh_impl, self.layout, devices)
        # The name of this attribute is a part of the keys in checkpoints.
        self._masters: Variables = Variables(seed, self.mesh_impl.devices, variables and variables._masters)
        self.step = self._masters.step

        def build(tensors: dict[str, tf.Tensor], part: tf.Tensor | None) -> Any:
            traced = tracing.trace(fn, self._inputs, tensors, self.layout, self._masters)
            graph, mesh, outputs, _ = traced
            self._repeated = tracing.check(traced, self.layout)
            self._demand = memory.demand(graph, self.mesh_impl)
            self._masters.create()
            drawn = Part(part_of[0], part_of[1], part) if part_of else None
            self.mesh_impl.random_state = RandomState(seed, self._masters.read_step(), drawn)
            lowered = lowering.Lowering(graph, traced.needed, {mesh: self.mesh_impl}, self.mesh_impl.random_state)
            results = tf.nest.map_structure(lowered.export_to_tf_tensor, outputs)
            reads = [variable.read for variable in lowered.variables.values()]
            with tf.control_dependencies([*tf.nest.flatten(results), *reads, self._masters.read_step()]):
                assignments = [] if updates == "none" else self.mesh_impl.assignments
                done = self._masters.assign(assignments, count_step=updates == "all")
            with tf.control_dependencies(done), tf.device(self.mesh_impl.host):
                results = tf.nest.map_structure(tf.identity, results)
            self._shapes = {v.name: v.shape for v in graph.all_variables}
            self.changes = layout_changes(graph, self.mesh_impl)
            return results

        signature = {key: spec.spec for key, spec in self._inputs.items()}
        which = tf.TensorSpec([], tf.int32, name="part") if part_of else None
        with memory.shortage_explained(lambda: self._demand):
            self.function = tf.function(build, autograph=False).get_concrete_function(signature, which)
        for change in self.changes:
            _say_change(change)
        if self._repeated:
            _logger.warning(
                "no rule of layout '%s' uses %s of mesh '%s': the same work is done along it on every processor",
                self.layout.rules_string,
                " and ".join(f"'{d}'" for d in self._repeated),
                self.layout.mesh_string,
            )

    def __call__(self, /, **tensors: Any) -> Any:
        """Calls the program on whole tensors.

        Args:
          **tensors: a tensor for each input, by keyword.

        Returns:
          Whole tensors in the structure that `fn` returned.

        Raises:
          ShapeError: an input is missing, unknown, or has another shape or dtype.
        """
        return self._call(None, tensors)

    def call_part(self, index: int, /, **tensors: Any) -> Any:
        """Calls a program that has `part_of` on the inputs of one part.

        Args:
          index: number of the part, from 0.
          **tensors: a tensor for each input, by keyword.

        Returns:
          Whole tensors in the structure that `fn` returned.
        """
        return self._call(index, tensors)

    def _call(self, index: int | None, tensors: Mapping[str, Any]) -> Any:
        unknown, missing = sorted(tensors.keys() - self._inputs.keys()), sorted(self._inputs.keys() - tensors.keys())
        if unknown or missing:
            raise ShapeError(
                f"the program takes the inputs {', '.join(self._inputs) or 'none'}; "
                + "; ".join([f"'{k}' is not one of them" for k in unknown] + [f"'{k}' is missing" for k in missing])
            )
        if (index is None) != (self._part_of is None):
            raise ShapeError(f"part {index}, but the program is made with part_of={self._part_of}: give both or none")
        part = None if index is None else tf.constant(index, tf.int32)
        # TensorFlow puts what has no device of its own where the call is made, by default on the first GPU.
        with memory.shortage_explained(lambda: self._demand), tf.device(self.mesh_impl.host):
            inputs = {key: self._checked(spec, tensors[key]) for key, spec in self._inputs.items()}
            with self._masters.lock:
                return self.function(inputs, part)

    def _checked(self, spec: tracing.Input, value: Any) -> tf.Tensor:
        with tf.device("CPU:0"):  # a whole tensor need not fit where its slices do
            try:
                value = tf.convert_to_tensor(value, dtype=spec.dtype)
            except (TypeError, ValueError) as error:
                raise ShapeError(f"input '{spec.name}' must be convertible to {spec.dtype.name}: {error}") from None
        if value.shape != spec.shape.to_integer_list:
            dims = format_shape((d.name, d.size) for d in spec.shape.dims)
            raise ShapeError(f"input '{spec.name}' must have shape [{dims}], not {value.shape.as_list()}")
        return value

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """The variables by name, without the step."""
        return self._masters.variables

    @property
    def num_nodes(self) -> int:
        """The number of nodes of the compiled graph."""
        return len(self.function.graph.get_operations())

    def slice_shape(self, name: str) -> list[int]:
        """Returns the per-processor shape of an input or a variable.

        Args:
          name: name of the input or variable.

        Raises:
          LayoutError: the program has none of that name.
        """
        if name in self._inputs:
            return self.mesh_impl.slice_shape(self._inputs[name].shape)
        if name in self._shapes:
            return self.mesh_impl.slice_shape(self._shapes[name])
        raise LayoutError(
            f"the program has no input or variable '{name}'; it has {', '.join([*self._inputs, *self._shapes])}"
        )


@functools.cache  # once, however many programs have the same network
def _say_change(change: LayoutChange) -> None:
    _logger.info("%s", change)
