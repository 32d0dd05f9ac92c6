"""The class `Program`: a function over named tensors, compiled once for a mesh and a layout."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from mtf_imaging.engine.compat import shared_constants
from mtf_imaging.engine.layout import Layout, UnevenSplit, uneven_splits
from mtf_imaging.engine.meshes import make_mesh_impl
from mtf_imaging.engine.meshes.boxes import Boxes
from mtf_imaging.engine.meshes.random.state import Part, RandomState
from mtf_imaging.engine.meshes.turn_mesh import TurnMesh
from mtf_imaging.engine.ops.freezing import is_weight
from mtf_imaging.engine.program import checks, lowering, memory, tracing
from mtf_imaging.engine.program.in_turns import Consume, InTurns, Lowered, check_folder
from mtf_imaging.engine.program.inputs import Input, Spec, label_faults_explained
from mtf_imaging.engine.program.layout_changes import layout_changes, log_change
from mtf_imaging.engine.program.variables import Variables
from mtf_imaging.engine.program.xla import compilation
from mtf_imaging.engine.turns.costs import TurnCosts
from mtf_imaging.errors import LayoutError, ShapeError

_logger = logging.getLogger(__name__)


class _Checked(NamedTuple):
    """A graph before it is lowered, the mesh dimensions that no rule uses, and the memory of its tensors."""

    traced: tracing.Traced
    repeated: tuple[str, ...]
    demand: memory.Demand


class Program(tf.Module):
    """A function that is lowered once for a mesh and a layout into one `tf.function`.

    A layout changes speed and memory, never results:

    - Initial values of variables depend only on (seed, variable name).
    - Random operations depend only on (seed, step, operation, position in the whole tensor).

    Every `mtf.Assign` in the function runs once per call, after all variables have been read. Outputs are therefore
    computed from the values before the update.

    Several assignments to one variable run in the order in which `fn` makes them. `mtf.assign_add` and `mtf.assign_sub`
    change the value that earlier ones left, and `mtf.assign` replaces it. If the new value depends on the variable,
    replacing it would drop the earlier assignments, so this is refused. An `assign_fn` of your own gets the current
    value: `mtf.assign(mean, x, lambda variable, master, x: master.assign(0.9 * master + 0.1 * x))`.

    Programs are thread-safe, even if they share variables. Calls run one at a time, so no call reads a variable while
    another call assigns to it, and no update is lost.

    If the mesh is collective, every process creates the same programs in the same order, and makes the same calls. A
    plain call takes and returns whole tensors in every process. `call_slices` takes and returns the slices of this
    process, so no process holds a whole tensor.

    `tf.train.Checkpoint(program=p)` contains whole variables and the step, and does not depend on the layout.

    Args:
      fn: a function that takes an `mtf.Tensor` for each input, as keyword arguments, and returns an `mtf.Tensor`, or a
        tuple or dict of them.
      inputs: for each input a shape such as `"batch:1,x:12,channels:3"`, with dtype float32, or a pair (shape, dtype).
      mesh_shape: the mesh of processors, such as `"rows:2,cols:2"`; `""` is one processor.
      layout: rules that split tensor dimensions over mesh dimensions, such as `"x:rows,y:cols"`; or a `Layout`, which
        includes the mesh.
      mesh_impl: "stacked", "placement", "collective" or "auto"; see `mtf_imaging.engine.meshes.make_mesh_impl`.
      devices: device strings; default: all GPUs, or all logical CPUs if there is no GPU.
      seed: an int.
      variables: a `Program` with which to share variables and step, or None.
      name: name of the `tf.Module`.
      updates: which assignments of `fn` a call runs. "all" runs them and counts the step. "variables" runs them but
        does not count the step, for a call that is only a part of a step. "none" runs no assignments.
      part_of: (dimension name, number of micro-batches) if a call computes one of several micro-batches, else None.
        Such a program is called with `call_part`. Its random operations draw the same values as one call on the
        whole batch would.
      may_repeat: whether to allow processors that repeat the same work without a warning.
      sequential: names of mesh dimensions whose processors take turns on their device, separated by commas. Only the
        slices of one turn are in the memory of the device; those of the others wait in `offload_dir`.
      offload_dir: the folder in which slices wait; default: the memory of the host if there is a GPU, else TMPDIR, or
        that of /tmp and /var/tmp with more space.
      xla: whether XLA compiles the program, for one device that computes all processors.

    Attributes:
      layout: the `Layout`.
      variables: dict from mtf names to `tf.Variable`s.
      step: int64 `tf.Variable` that counts the calls with assignments.
      mesh_impl: the mesh implementation.
      function: the compiled `tf.ConcreteFunction`.
      frozen: the names of the weights that the function froze; see `mtf_imaging.engine.ops.freezing`.
      changes: the `LayoutChange`s within the program; see `mtf_imaging.engine.ops.gather_slices`.

    Raises:
      ConfigError: `offload_dir` does not exist.
      LayoutError: the layout has faults. The error lists all of them and is raised before any device is used.
      NotSupportedError: an assignment would drop earlier ones, or XLA cannot compile the program (see `compilation`).
      OutOfMemoryError: a device has less memory than the program needs. Calls raise this error, too.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        inputs: Mapping[str, Spec],
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
        may_repeat: bool = False,
        sequential: str = "",
        offload_dir: str | None = None,
        xla: bool = False,
    ) -> None:
        super().__init__(name=name)
        self._inputs = {key: Input(key, spec) for key, spec in inputs.items()}
        self._part_of = part_of
        self.layout, self.seed = Layout.of(layout, mesh_shape, sequential, offload_dir), seed
        check_folder(self.layout.offload_dir)
        self.mesh_impl = make_mesh_impl(mesh_impl, self.layout, devices)
        self._on_device = compilation(self.mesh_impl, xla)
        self._boxes = Boxes(self.mesh_impl)
        # The name of this attribute is a part of the keys in checkpoints.
        with tf.device(self.mesh_impl.devices[0]):  # that of the step: XLA needs all variables on one device
            self._masters: Variables = Variables(seed, self.mesh_impl.devices, variables and variables._masters)
        self.step = self._masters.step
        found: list[_Checked] = []
        in_turns: list[Lowered] = []

        @shared_constants()
        def build(tensors: dict[str, tf.Tensor], part: tf.Tensor | None, turn: tf.Tensor | None) -> Any:
            self.mesh_impl.transport.begin(turn)
            traced = tracing.trace(fn, self._inputs, tensors, self.layout, self._masters)
            graph, mesh, outputs, *_ = traced
            repeated = tracing.check(traced, self.layout)
            found.append(_Checked(traced, repeated, memory.demand(graph, self.mesh_impl)))
            self._masters.create()
            drawn = Part(part_of[0], part_of[1], part) if part_of else None
            self.mesh_impl.random_state = RandomState(seed, self._masters.read_step(), drawn)
            lowered = lowering.Lowering(graph, traced.needed, {mesh: self.mesh_impl}, self.mesh_impl.random_state)
            results = tf.nest.map_structure(lowered.export_to_tf_tensor, outputs)
            assignments = [] if updates == "none" else self.mesh_impl.assignments
            if isinstance(self.mesh_impl, TurnMesh):
                must_run = self.mesh_impl.transport.end()
                in_turns.append(Lowered([tensors, part, turn], results, assignments, must_run))
                return results
            reads = [variable.read for variable in lowered.variables.values()]
            # The group keeps the number of edges linear in the number of variables.
            computed = tf.group(
                *tf.nest.flatten(results), *reads, self._masters.read_step(), *self.mesh_impl.transport.end()
            )
            with tf.control_dependencies([computed]):
                done = self._masters.assign(assignments, count_step=updates == "all")
            with tf.control_dependencies(done), tf.device(self.mesh_impl.host):
                return tf.nest.map_structure(tf.identity, results)

        if not all(checks.can_lay_out(spec.shape, self.layout) for spec in self._inputs.values()):
            # The graph cannot be compiled, because such an input has no slices. Its check reports this and all other
            # faults.
            tracing.check(tracing.trace_only(fn, inputs, self.layout), self.layout)
        signature = {
            key: tf.TensorSpec(self._boxes.shape(spec.shape), spec.dtype, name=key)
            for key, spec in self._inputs.items()
        }
        which = tf.TensorSpec([], tf.int32, name="part") if part_of else None
        self._calls = self._joins = 0
        turn = tf.TensorSpec([], tf.int32, name="turn") if self.mesh_impl.transport.is_between_processes else None
        with memory.shortage_explained(lambda: found[0].demand if found else None):
            if isinstance(self.mesh_impl, TurnMesh):
                graph = tf.compat.v1.wrap_function(build, [signature, which, turn]).graph
                self.function = InTurns(
                    self.mesh_impl, self._masters, graph, in_turns.pop(), updates == "all", self.layout.offload_dir
                )
            else:
                compiled = tf.function(build, autograph=False, jit_compile=xla)
                self.function = compiled.get_concrete_function(signature, which, turn)
        traced, repeated, self._demand = found.pop()  # `build` does not keep the graph in memory
        self._label_values = traced.label_values
        self._shapes = {v.name: v.shape for v in traced.graph.all_variables}
        self.frozen = tuple(v.name for v in traced.graph.all_variables if is_weight(v) and not v.trainable)
        self._outputs = tf.nest.map_structure(lambda y: y.shape, traced.outputs)
        self.changes = layout_changes(traced.graph, self.mesh_impl)
        self._join = self._make_join(turn)
        for change in self.changes:
            log_change(change)
        if repeated and not may_repeat:
            _logger.warning(
                "no rule of layout '%s' uses %s of mesh '%s': all processors along it do the same work",
                self.layout.rules_string,
                " and ".join(f"'{d}'" for d in repeated),
                self.layout.mesh_string,
            )

    def __call__(self, /, *in_order: object, **tensors: object) -> Any:
        """Runs the program on whole tensors.

        Args:
          *in_order: values of the first inputs, in the order of `inputs`.
          **tensors: a tensor, an array, or Python numbers in lists for each other input, by keyword. Values of another
            dtype are cast if that changes no value, except by rounding to a float. If the mesh is collective, every
            process passes the same values.

        Returns:
          Whole tensors in the same structure as the return value of `fn`, in every process.

        Raises:
          ShapeError: an input is missing or unknown, or has the wrong shape or a dtype whose cast would change values.
          DataError: an input has labels other than those that the function declared; see `ops.expect_labels`.
          ClusterError: another process is lost.
        """
        if len(in_order) > len(self._inputs):
            raise ShapeError(f"the program has the inputs {', '.join(self._inputs)}, but gets {len(in_order)} values.")
        return self.join(self._call(None, self.cut(**dict(zip(self._inputs, in_order)), **tensors)))

    def call_part(self, index: int, /, **tensors: object) -> Any:
        """Runs a program with `part_of` on the inputs of one micro-batch.

        Args:
          index: number of the micro-batch, from 0.
          **tensors: a tensor for each input, by keyword.

        Returns:
          Whole tensors in the same structure as the return value of `fn`.
        """
        return self.join(self._call(index, self.cut(**tensors)))

    def call_slices(self, index: int | None = None, /, **slices: object) -> Any:
        """Runs the program on the slices of this process.

        Args:
          index: micro-batch number for a program with `part_of`, else None.
          **slices: the `region` of each input, by keyword, as returned by `cut`.

        Returns:
          The regions of the outputs, in the same structure as the return value of `fn`. If all processors are in this
          process, these are the whole tensors.

        Raises:
          ShapeError: an input is missing or unknown, or has the wrong shape or a dtype whose cast would change values.
          DataError: an input has labels other than those that the function declared; see `ops.expect_labels`.
          ClusterError: another process is lost.
        """
        return self._call(index, slices)

    @property
    def streams(self) -> bool:
        """Whether turns compute the result row by row along its second dimension; see `stream_slices`."""
        return isinstance(self.function, InTurns) and self.function.streams and self._part_of is None

    def stream_slices(self, consume: Consume, /, **slices: object) -> None:
        """Runs the program as `call_slices` does, but keeps no result.

        Args:
          consume: is called with the range along the second dimension and the values of the next rows, in order. The
            values change after the call.
          **slices: the same as in `call_slices`, whose errors are raised, too.
        """
        assert self.streams
        self._call(None, slices, consume)

    def region(self, name: str) -> tuple[slice, ...]:
        """Returns the region of an input that this process passes to `call_slices`: a Python slice per dimension.

        The region consists of the slices of all processors of this process. If the mesh is not collective, it is the
        whole tensor.
        """
        return self._boxes.region(self._inputs[name].shape)

    def regions(self, name: str) -> list[tuple[slice, ...]]:
        """Returns the `region` of an input in each process, by process number."""
        return self._boxes.regions(self._inputs[name].shape)

    @property
    def output_shapes(self) -> Any:
        """The `mtf.Shape`s of the outputs, in the same structure as the return value of `fn`."""
        return self._outputs

    def output_regions(self) -> Any:
        """Returns the regions of the outputs in each process, in the same structure as the return value of `fn`."""
        return tf.nest.map_structure(self._boxes.regions, self._outputs)

    def cut(self, /, **tensors: object) -> dict[str, tf.Tensor]:
        """Cuts the regions of this process out of whole inputs; the argument of `call_slices`."""
        self._check_names(tensors)
        with tf.device(self.mesh_impl.host):
            whole = {key: spec.convert(tensors[key]) for key, spec in self._inputs.items()}
            if not self.mesh_impl.transport.is_between_processes:
                return whole
            return {key: value[self.region(key)] for key, value in whole.items()}

    def join(self, results: object) -> Any:
        """Joins the `call_slices` results of all processes to whole tensors, in every process."""
        if self._join is None:
            return results
        with self.mesh_impl.transport.watched(), tf.device(self.mesh_impl.host):
            self._joins += 1
            return self._join(results, self._turn(self._joins))

    def _make_join(self, turn: tf.TensorSpec | None) -> Callable[..., Any] | None:
        """Returns the function that gathers outputs; None if no output is split over processes."""
        if turn is None or not any(map(self.mesh_impl.is_split, tf.nest.flatten(self._outputs))):
            return None

        def gather(results: object, turn: tf.Tensor) -> Any:
            self.mesh_impl.transport.within_turn.begin(turn)
            boxes = tf.nest.map_structure(self._boxes.fill, results, self._outputs)
            return tf.nest.map_structure(self._boxes.gather, boxes, self._outputs)

        return tf.function(gather, autograph=False)

    def _turn(self, number: int) -> tf.Tensor | None:
        """Returns the parity of a call number, which selects the keys of the collectives."""
        if not self.mesh_impl.transport.is_between_processes:
            return None
        return tf.constant(number % 2, tf.int32)

    def _check_names(self, tensors: Mapping[str, Any]) -> None:
        unknown, missing = sorted(tensors.keys() - self._inputs.keys()), sorted(self._inputs.keys() - tensors.keys())
        if unknown or missing:
            raise ShapeError(
                f"the program has the inputs {', '.join(self._inputs) or 'none'}, but "
                + ", ".join([f"'{k}' is unknown" for k in unknown] + [f"'{k}' is missing" for k in missing])
            )

    def _call(self, index: int | None, slices: Mapping[str, Any], consume: Consume | None = None) -> Any:
        self._check_names(slices)
        if (index is None) != (self._part_of is None):
            raise ShapeError(
                f"the micro-batch is {index}, but part_of of the program is {self._part_of}. "
                "Fix: use call_part for a program with part_of, and a plain call for any other program."
            )
        mesh = self.mesh_impl
        part = None if index is None else tf.constant(index, tf.int32)
        # TensorFlow places operations without a device on the device of the caller, by default the first GPU.
        with memory.shortage_explained(lambda: self._demand), tf.device(mesh.host):
            inputs = {}
            for key, spec in self._inputs.items():
                tensor = spec.convert(slices[key], self.region(key))
                if key in self._label_values:
                    spec.check_labels(tensor, self._label_values[key], self.region(key))
                inputs[key] = self._boxes.fill(tensor, spec.shape)
            with label_faults_explained(), self._masters.lock, mesh.transport.watched():
                self._calls += 1
                if consume is not None and isinstance(self.function, InTurns):
                    return self.function.stream(inputs, consume)
                with self._on_device():
                    results = self.function(inputs, part, self._turn(self._calls))
                return tf.nest.map_structure(self._boxes.clip, results, self._outputs)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """The variables by name, without the step."""
        return self._masters.variables

    @property
    def input_specs(self) -> dict[str, tf.TensorSpec]:
        """The whole shapes and the dtypes of the inputs by name."""
        return {name: own.spec for name, own in self._inputs.items()}

    @property
    def turn_costs(self) -> TurnCosts | None:
        """What turns read, write and keep; None if no processors take turns."""
        return self.function.schedule.costs if isinstance(self.function, InTurns) else None

    @property
    def num_nodes(self) -> int:
        """The number of nodes in the compiled graph."""
        if isinstance(self.function, InTurns):
            return self.function.schedule.num_nodes
        return len(self.function.graph.get_operations())

    @property
    def uneven_splits(self) -> tuple[UnevenSplit, ...]:
        """The dimensions of inputs and variables that the layout splits into uneven slices."""
        shapes = [spec.shape for spec in self._inputs.values()] + list(self._shapes.values())
        return uneven_splits(self.layout, [[(dim.name, dim.size) for dim in shape.dims] for shape in shapes])

    def slice_shape(self, name: str) -> list[int]:
        """Returns the per-processor shape of an input or a variable.

        All slices have the same shape; the last ones may contain fewer elements of the tensor (see `uneven_splits`).

        Args:
          name: name of the input or variable.

        Raises:
          LayoutError: the program has no input or variable with this name.
        """
        if name in self._inputs:
            return self.mesh_impl.slice_shape(self._inputs[name].shape)
        if name in self._shapes:
            return self.mesh_impl.slice_shape(self._shapes[name])
        raise LayoutError(
            f"the program has no input or variable '{name}'. Known names: {', '.join([*self._inputs, *self._shapes])}."
        )
