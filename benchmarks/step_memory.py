"""Measures the memory of one training step, in bytes per voxel, and compares it with the planner.

    python -m benchmarks.step_memory --size 96 --dtype bfloat16 --mesh_shape rows:2 --layout x:rows
    python -m benchmarks.step_memory --size 96 --recompute --pairs 3

It prints three figures for one volume of size^3 voxels:

- "process": the growth of the peak memory of a new process in its first step, as reported by the Linux kernel. It
  includes the work space of kernels, one-time preparations of TensorFlow, and space that the allocator wastes.
- "tensors": the tensor peak that TensorFlow reports, of the GPU if there is one, as the median of several later steps.
- "planned": the tensor peak that the planner computes and `mtf-imaging explain` prints.

With --sequential, it prints the peak memory of the process above the imported libraries, and the memory of a turn with
the graph, the weights and the optimizer slots, as planned.

The weights and the optimizer slots are allocated before the step and not included. With --pairs, steps with and without
recomputation alternate in one process, and their times are compared.
"""

import argparse
import dataclasses
import statistics
import time

import numpy as np

import mtf_imaging as mi
from benchmarks.partition.memory import peak as peak_bytes
from mtf_imaging.engine.layout import Layout
from mtf_imaging.jobs.steps.costs import turn_costs
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.planner.bench.subject import tensors_above
from mtf_imaging.planner.cost.plan import make_plan
from mtf_imaging.planner.cost.start_up import PROCESS, start_ups
from mtf_imaging.training.optimizers import Adafactor
from mtf_imaging.training.step import TrainingStep, training_step

MIB, GIB = 2**20, 2**30
STEPS = 5  # single steps have peaks that differ by up to 15%


def _flag(default, help_text):
    return dataclasses.field(default=default, metadata={"help": help_text})


@dataclasses.dataclass(frozen=True)
class Setting:
    """The network, the volume and the layout of a measurement."""

    size: int = _flag(64, "voxels along each axis")
    dtype: str = _flag("bfloat16", "type of the activations")
    base_filters: int = _flag(32, "filters of the first block")
    recompute: bool = _flag(False, "recompute activations in the backward pass")
    mesh_shape: str = _flag("", "mesh of processors, all on one device, for instance rows:2,cols:2")
    layout: str = _flag("", "rules of the layout, for instance x:rows,y:cols")
    sequential: str = _flag("", "mesh dimensions whose processors take turns, for instance rows")
    norm: str = _flag("batch", "norm of the network: batch, group or instance")
    tpu: bool = _flag(False, "use the network of gin/unet3d_tpu_256.gin instead of gin/unet3d_lits.gin")

    @property
    def voxels(self):
        return self.size**3

    @property
    def sizes(self):
        return (self.size,) * 3

    def task(self):
        network = {"base_filters": self.base_filters, "recompute": self.recompute, "norm": self.norm}
        if self.tpu:
            network = UNet3D(**network, double_before_pool=True, negative_slope=0.0, dropout_rate=0.0)
            return LiverTumorSegmentation(network, dice="adaptive", dice_weight=1.0)
        return LiverTumorSegmentation(UNet3D(**network))

    def plan(self):
        """Returns the plan of the step."""
        layout = Layout.parse(self.mesh_shape, self.layout, self.sequential)
        step = TrainingStep(self.task(), Adafactor(), self.sizes, 1, 1, self.dtype)
        return make_plan(step.trace(layout), layout, mesh_impl="stacked", turns=turn_costs(step, layout))

    def program(self, **options):
        task = self.task()
        return mi.Program(
            training_step(task, Adafactor()),
            task.inputs(1, self.sizes, self.dtype),
            mesh_shape=self.mesh_shape,
            layout=self.layout,
            mesh_impl="stacked",
            sequential=self.sequential,
            **options,
        )

    def batch(self):
        rng, sizes = np.random.default_rng(0), (1, *self.sizes)
        return {"image": rng.random((*sizes, 1), np.float32), "labels": rng.integers(0, 3, sizes, np.int32)}

    def __str__(self):
        network = f"{self.base_filters} filters, {self.norm} norm{', network of a TPU' if self.tpu else ''}"
        network += ", recomputed" if self.recompute else ""
        turns = f" in turns on {self.mesh_shape}" if self.sequential else ""
        return f"{self.size}^3 {self.dtype}, {network}, layout '{self.layout}'{turns}"


@dataclasses.dataclass(frozen=True)
class Measured:
    """The measurements of one process.

    Attributes:
      imported: bytes before the program was built.
      before: bytes before the first step.
      peak: bytes at the peak of the first step.
      last: bytes at the peak of all steps.
      tensors: median tensor bytes at the peak of later steps; 0 if there is only one step.
      seconds: duration of the last step.
    """

    imported: int
    before: int
    peak: int
    last: int
    tensors: int
    seconds: float


def measure(setting, steps=STEPS + 1):
    """Runs steps and returns a `Measured`. The process must not have run any step before."""
    imported = peak_bytes()
    program, batch = setting.program(), setting.batch()
    before = peak_bytes()
    tensors, seconds = [], []
    for number in range(steps):
        began = time.perf_counter()
        tensors.append(tensors_above(lambda: program(**batch), program.mesh_impl.devices))
        seconds.append(time.perf_counter() - began)
        if number == 0:
            peak = peak_bytes()
    return Measured(imported, before, peak, peak_bytes(), int(statistics.median(tensors[1:] or [0])), seconds[-1])


def planned_process(setting):
    """Returns the memory of a process in turns without imported libraries, as planned."""
    plan = setting.plan()
    return start_ups(plan, 0)["turns"].process_memory - PROCESS


def time_pairs(setting, pairs):
    """Returns the seconds of alternating steps without and with recomputation, excluding the first of each."""
    kept = dataclasses.replace(setting, recompute=False).program()
    programs, batch = [kept, dataclasses.replace(setting, recompute=True).program(variables=kept)], setting.batch()
    seconds = []
    for _ in range(pairs + 1):
        seconds.append([])
        for program in programs:
            began = time.perf_counter()
            program(**batch)
            seconds[-1].append(time.perf_counter() - began)
    return seconds[1:]


def parser(description, names):
    """Returns a parser with flags for some attributes of a `Setting`."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in dataclasses.fields(Setting):
        if field.name in names:
            how = {"action": "store_true"} if field.type is bool else {"type": field.type, "default": field.default}
            made.add_argument(f"--{field.name}", help=field.metadata["help"], **how)
    return made


def main():
    flags = parser(__doc__, [field.name for field in dataclasses.fields(Setting)])
    flags.add_argument(
        "--pairs",
        type=int,
        default=0,
        help="number of pairs of steps, with and without recomputation, to compare in time",
    )
    flags.add_argument("--steps", type=int, default=STEPS + 1, help="number of steps to measure")
    arguments = vars(flags.parse_args())
    pairs, steps = arguments.pop("pairs"), arguments.pop("steps")
    setting = Setting(**arguments)
    if pairs:
        seconds = time_pairs(setting, pairs)
        kept, again = (statistics.median(values) for values in zip(*seconds))
        ratio = statistics.median(b / a for a, b in seconds)
        print(
            f"{setting.size}^3 {setting.dtype}, layout '{setting.layout}': {kept:.1f} s kept, {again:.1f} s recomputed"
        )
        print(f"recomputation takes {ratio:.2f} times as long (median of {pairs} pairs)")
        return
    if setting.sequential:
        measured, planned = measure(setting, steps), planned_process(setting)
        process = measured.last - measured.imported
        print(
            f"{setting}: process {process / MIB:.0f} MiB above the imports, planned {planned / MIB:.0f} MiB, "
            f"{planned / process:.2f} of it; {measured.seconds:.1f} s"
        )
        return
    measured, planned = measure(setting, steps), setting.plan().peak.nbytes
    step = measured.peak - measured.before
    print(
        f"{setting}: process {step / GIB:.2f} GiB above {measured.before / GIB:.2f} GiB, "
        f"{step / setting.voxels:.0f} bytes per voxel; tensors {measured.tensors / setting.voxels:.0f}, "
        f"planned {planned / setting.voxels:.0f}, {planned / measured.tensors:.2f} of them; {measured.seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
