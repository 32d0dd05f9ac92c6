"""A lowered program whose processors take turns, with the interface of a compiled function."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from mtf_imaging.engine.meshes.devices import default_devices
from mtf_imaging.engine.meshes.turn_mesh import TurnMesh
from mtf_imaging.engine.program.variables import Variables
from mtf_imaging.engine.turns.schedule import Consume, Schedule
from mtf_imaging.errors import ConfigError
from mtf_imaging.files.scratch import scratch_folder


class Lowered(NamedTuple):
    """A lowered function.

    Attributes:
      arguments: its arguments: placeholders, in any structure.
      results: its results, in any structure.
      assignments: the assignments that a call makes.
      must_run: operations that a call runs even if nothing depends on them.
    """

    arguments: object
    results: object
    assignments: Sequence[tuple]
    must_run: Sequence[tf.Operation]


class InTurns:
    """Computes a program in turns.

    Args:
      mesh: the mesh, after lowering.
      variables: the variables of the program.
      graph: the graph of the lowered function.
      lowered: the lowered function.
      count_step: whether a call counts the step.
      folder: the folder for the values of turns; None to choose one.

    Attributes:
      schedule: the `Schedule`.
    """

    def __init__(
        self,
        mesh: TurnMesh,
        variables: Variables,
        graph: tf.Graph,
        lowered: Lowered,
        count_step: bool,
        folder: str | None,
    ) -> None:
        self._variables, self._results = variables, lowered.results
        self._arguments = [x.name for x in tf.nest.flatten(lowered.arguments) if x is not None]
        self._reads = _reads(graph)
        flat = tf.nest.flatten(lowered.results)
        self.schedule = Schedule(
            mesh.turns,
            [*flat, *(value for *_, value in lowered.assignments)],
            [*self._arguments, *(name for name, *_ in self._reads)],
            folder or _default_folder(),
            mesh.host,
            lowered.must_run,
        )
        self._number = len(flat)
        self._commit = self._make_commit(lowered.assignments, count_step)

    def _make_commit(self, assignments: Sequence[tuple], count_step: bool) -> Callable[..., None] | None:
        """Returns the function that makes the assignments."""
        if not assignments:
            return None
        pairs = [(variable, assign_fn) for variable, assign_fn, _ in assignments]

        def commit(*values: tf.Tensor) -> None:
            each = [(*pair, value) for pair, value in zip(pairs, values, strict=True)]
            self._variables.assign(each, count_step=count_step)

        specs = [tf.TensorSpec(value.shape, value.dtype) for *_, value in assignments]
        return tf.function(commit, autograph=False).get_concrete_function(*specs)

    @property
    def streams(self) -> bool:
        """Whether `stream` can pass on the only result."""
        return self._commit is None and self.schedule.streamed is not None

    def stream(self, inputs: Mapping[str, tf.Tensor], consume: Consume) -> None:
        """Passes on the rows of the result while they are computed; see `Schedule`."""
        self.schedule(self._known(dict(inputs)), consume)

    def _known(self, values: object) -> dict[str, tf.Tensor]:
        flat = [x for x in tf.nest.flatten(values) if x is not None]
        known = dict(zip(self._arguments, flat, strict=True))
        return known | {name: tf.raw_ops.ReadVariableOp(resource=x, dtype=dtype) for name, x, dtype in self._reads}

    def __call__(self, inputs: Mapping[str, tf.Tensor], part: tf.Tensor | None, turn: tf.Tensor | None) -> Any:
        outputs = self.schedule(self._known([dict(inputs), part, turn]))
        if self._commit is not None:
            self._commit(*outputs[self._number :])
        return tf.nest.pack_sequence_as(self._results, outputs[: self._number])


def _reads(graph: tf.Graph) -> list[tuple[str, tf.Tensor, tf.DType]]:
    """Returns (name, resource, dtype) of the tensors of a graph that are values of variables."""
    outside = {inner.name: outer for outer, inner in graph.captures}
    operations = [op for op in graph.get_operations() if op.type == "ReadVariableOp"]
    return [(op.outputs[0].name, outside[op.inputs[0].name], op.outputs[0].dtype) for op in operations]


def check_folder(folder: str | None) -> None:
    """Raises `ConfigError` if a folder for the values of turns is given but does not exist."""
    if folder is not None and not os.path.isdir(folder):
        what = "is not a folder" if os.path.exists(folder) else "does not exist"
        raise ConfigError(
            f"offload_dir '{folder}' {what}. Fix: create the folder, or choose another one.", ["offload_dir"]
        )


def free_space(folder: str | None) -> int:
    """Returns the bytes that a folder has room for; None is the folder or the memory that `Program` chooses."""
    check_folder(folder)
    folder = folder or _default_folder()
    if folder is not None:
        return shutil.disk_usage(folder).free
    available = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(available[1]) * 1024 if available else 0


def _default_folder() -> str | None:
    """Returns None, the memory of the host, if there is a GPU, and a folder of temporary files if there is none."""
    if any("GPU" in device.upper() for device in default_devices()):
        return None
    return scratch_folder()
