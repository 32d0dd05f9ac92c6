"""The plan of a job: what explain, search and a dry run say of what gin has bound."""

import copy
import dataclasses
import inspect

import gin

from mtf_imaging.cli.config.job import Job
from mtf_imaging.cli.config.job_setup import JobSetup
from mtf_imaging.cli.config.training_settings import Training, data_of, sizes_of
from mtf_imaging.data.sampling.grid import parse_grid
from mtf_imaging.errors import ConfigError, LayoutError, ShapeError
from mtf_imaging.layout import parse_layout, parse_shape
from mtf_imaging.planner.cost.explained import Explained
from mtf_imaging.planner.cost.hardware import Hardware, find_hardware
from mtf_imaging.planner.cost.plan import make_plan
from mtf_imaging.planner.cost.step import Step, trace_step
from mtf_imaging.planner.render.picture import LayoutPicture
from mtf_imaging.program.tracing import check, trace_only
from mtf_imaging.training.task import task_inputs

_own_hardware = gin.external_configurable(Hardware, "hardware", module="mtf_imaging")


def hardware_of(name: str | None) -> Hardware | None:
    """The hardware of --hardware: by its name, or what a gin file has bound.

    Raises:
      ConfigError: the file leaves something out.
    """
    if name is None or not name.endswith(".gin"):
        return name and find_hardware(name)
    bound = gin.get_bindings("mtf_imaging.hardware")
    needed = [p.name for p in inspect.signature(Hardware).parameters.values() if p.default is p.empty]
    missing = [f"hardware.{field}" for field in needed if field not in bound]
    if missing:
        raise ConfigError(f"--hardware {name}: does not say {', '.join(missing)}. Fix: a line {missing[0]} = ... .")
    return _own_hardware()


def recomputing(task, recompute: bool):
    """The same task with a network that computes activations again, or not; None where it has no such choice."""
    network = getattr(task, "network", None)
    if not dataclasses.is_dataclass(network) or not hasattr(network, "recompute"):
        return None
    other = copy.copy(task)
    other.network = dataclasses.replace(network, recompute=recompute)
    return other


@dataclasses.dataclass(frozen=True)
class Planned:
    """The job that gin has bound, to be planned.

    Attributes:
      setup: the setup.
      job: a `Job`.
      training: a `Training`.
      sizes: of the images.
    """

    setup: JobSetup
    job: Job
    training: Training
    sizes: tuple[int, ...]

    @classmethod
    def bound(cls, setup: JobSetup, data_dir: str | None = None) -> "Planned":
        """What is bound, at the resolution of the setup, or that of the data.

        Raises:
          ConfigError: neither is known.
        """
        training = Training()
        if setup.resolution is not None and training.data is None:
            sizes = parse_grid(setup.resolution)
        elif data_dir is not None or training.data is not None:
            data = data_of(Job(), training, setup)
            sizes = sizes_of(setup.resolution, training.data, data, data_dir)
        else:
            raise ConfigError("the resolution is not known. Fix: give --resolution, or --data_dir.")
        return cls(setup, Job(), training, sizes)

    def step(self, task=None, sizes=None, mesh_shape=None, layout=None, devices=("CPU:0",)) -> Step:
        """Traces the step of the job, or of another task, size or layout."""
        task, sizes = task or self.job.task, sizes or self.sizes
        inputs = task_inputs(task, self.setup.batch_size, sizes, dtype=self.job.dtype)
        mesh_shape = self.setup.mesh_shape if mesh_shape is None else mesh_shape
        layout = self.setup.layout if layout is None else layout
        options = {"parts": self.setup.micro_batches, "devices": devices}
        return trace_step(task, self.training.optimizer, inputs, mesh_shape, layout, **options)

    def explain(self, hardware: Hardware | None = None) -> Explained:
        """All that is to be said of the layout of the setup, with a device a processor.

        Raises:
          LayoutError: all that is not possible.
        """
        mesh_shape, layout, task = self.setup.mesh_shape, self.setup.layout, self.job.task
        devices = [f"device:{number}" for number in range(self.setup.processors)]
        try:
            step = self.step(devices=devices)
        except ShapeError as error:
            raise self._with_faults_of_inputs(error) from None
        repeated = check(step.traced, mesh_shape, layout)
        plan = make_plan(step, mesh_shape, layout)
        other = recomputing(task, not self.recomputes)
        other = other and make_plan(self.step(other, devices=devices), mesh_shape, layout)
        return Explained(plan, other, self.recomputes, hardware, self.job.dtype, self.setup.batch_size, repeated)

    def _with_faults_of_inputs(self, error: ShapeError) -> ShapeError:
        """What a network says of its sizes, and what can be said of the layout without it: all faults at once."""
        inputs = task_inputs(self.job.task, self.setup.batch_size, self.sizes, dtype=self.job.dtype)
        try:
            check(trace_only(lambda **tensors: tensors, inputs), self.setup.mesh_shape, self.setup.layout)
        except LayoutError as faults:
            return ShapeError(f"{error}\n{faults}")
        return error

    @property
    def recomputes(self) -> bool:
        """Whether the network computes activations again in the backward pass."""
        return bool(getattr(getattr(self.job.task, "network", None), "recompute", False))

    @property
    def volume(self) -> tuple[tuple[str, int], ...]:
        """The spatial dimensions of the images, by name."""
        shape, _ = next(iter(task_inputs(self.job.task, 1, self.sizes, dtype=self.job.dtype).values()))
        return parse_shape(shape)[1 : 1 + len(self.sizes)]


def picture_of(explained: Explained, volume: tuple[tuple[str, int], ...]) -> LayoutPicture:
    """What is drawn of a layout."""
    plan, hardware = explained.plan, explained.hardware

    def parts(of):
        if of is None:
            return ()
        return (("weights", of.weights), ("optimizer", of.state), ("activations at the peak", of.peak.nbytes))

    shape = "".join(f",{name}:{size}" for name, size in volume)
    halos = [op for op in plan.ops if op.phase == "forward" and any(map(sum, op.halo.values()))]
    # Where even the first makes fewer voxels of the image, as a stem with a stride does, it is what reads all of them.
    full = [op.halo for op in halos if shape in f",{op.whole}"] or [op.halo for op in halos[:1]]
    return LayoutPicture(
        volume=volume,
        mesh_shape=plan.mesh,
        layout=parse_layout(plan.layout),
        halo=max(full, key=lambda halo: sum(map(sum, halo.values())), default={}),
        memory=parts(explained.kept or plan),
        memory_recomputed=parts(explained.recomputed),
        device_memory=hardware and int(hardware.memory),
        device_name=hardware.name if hardware else "device",
    )
