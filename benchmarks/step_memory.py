"""Measures the memory of one training step of the paper's network on a CPU: bytes a voxel, for `gin/unet3d_lits_*.gin`.

    python -m benchmarks.step_memory --size 96 --dtype bfloat16 --mesh_shape rows:2 --layout x:rows
    python -m benchmarks.step_memory --size 96 --recompute --pairs 3

The peak of a fresh process over what it held before its first step, by the kernel's account (Linux), for one volume of
size^3 voxels. It counts activations, what the step computes on the way, gradients and the libraries' workspace; the
weights, their slots and the program are in what was held before. "of tensors" is the peak of TensorFlow's own account,
in a second step, without workspace and what the first one prepares. With --pairs steps with and without recomputation
are made in turn, in one process, and their times compared.
"""

import argparse
import dataclasses
import resource
import statistics
import time

import numpy as np
import tensorflow as tf

import mtf_imaging as mi
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.training.optimizers import Adafactor
from mtf_imaging.training.step import training_step

GIB = 2**30


def _flag(default, help_text):
    return dataclasses.field(default=default, metadata={"help": help_text})


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is measured."""

    size: int = _flag(64, "voxels along each axis")
    dtype: str = _flag("bfloat16", "of the activations")
    base_filters: int = _flag(32, "filters of the first block")
    recompute: bool = _flag(False, "compute activations again in the backward pass")
    mesh_shape: str = _flag("", "the mesh of processors, all on one device: rows:2,cols:2")
    layout: str = _flag("", "what is split: x:rows,y:cols")
    tpu: bool = _flag(False, "the network of gin/unet3d_tpu_256.gin, rather than the paper's")

    @property
    def voxels(self):
        return self.size**3

    def program(self, **options):
        network = {"base_filters": self.base_filters, "recompute": self.recompute}
        if self.tpu:
            network = UNet3D(**network, double_before_pool=True, negative_slope=0.0, dropout_rate=0.0)
            task = LiverTumorSegmentation(network, dice="adaptive", dice_weight=1.0)
        else:
            task = LiverTumorSegmentation(UNet3D(**network))
        return mi.Program(
            training_step(task, Adafactor()),
            task.inputs(1, (self.size,) * 3, self.dtype),
            mesh_shape=self.mesh_shape,
            layout=self.layout,
            mesh_impl="stacked",
            **options,
        )

    def batch(self):
        rng, sizes = np.random.default_rng(0), (1, *(self.size,) * 3)
        return {"image": rng.random((*sizes, 1), np.float32), "labels": rng.integers(0, 3, sizes, np.int32)}

    def __str__(self):
        again = ", recomputed" if self.recompute else ""
        return f"{self.size}^3 {self.dtype}, {self.base_filters} filters, layout '{self.layout}'{again}"


@dataclasses.dataclass(frozen=True)
class Found:
    """What one process found: bytes that it held before, at the peak of its first step, and as tensors; seconds."""

    before: int
    peak: int
    tensors: int
    seconds: float


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(setting, steps=2):
    """Makes steps; to be called in a process that has made none. With one step, what it takes as tensors is unknown."""
    program, batch = setting.program(), setting.batch()
    before = peak_bytes()
    began = time.perf_counter()
    program(**batch)
    peak, tensors = peak_bytes(), 0
    for _ in range(steps - 1):
        tf.config.experimental.reset_memory_stats("CPU:0")
        held = tf.config.experimental.get_memory_info("CPU:0")["current"]
        began = time.perf_counter()
        program(**batch)
        tensors = tf.config.experimental.get_memory_info("CPU:0")["peak"] - held
    return Found(before, peak, tensors, time.perf_counter() - began)


def time_pairs(setting, pairs):
    """Seconds of steps that keep activations, and of such that compute them again, in turn; the first of each apart."""
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
    """A parser with flags for some attributes of a `Setting`."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in dataclasses.fields(Setting):
        if field.name in names:
            how = {"action": "store_true"} if field.type is bool else {"type": field.type, "default": field.default}
            made.add_argument(f"--{field.name}", help=field.metadata["help"], **how)
    return made


def main():
    flags = parser(__doc__, [field.name for field in dataclasses.fields(Setting)])
    flags.add_argument("--pairs", type=int, default=0, help="compare the times of this many pairs of steps")
    arguments = vars(flags.parse_args())
    pairs = arguments.pop("pairs")
    setting = Setting(**arguments)
    if pairs:
        seconds = time_pairs(setting, pairs)
        kept, again = (statistics.median(values) for values in zip(*seconds))
        ratio = statistics.median(b / a for a, b in seconds)
        print(
            f"{setting.size}^3 {setting.dtype}, layout '{setting.layout}': {kept:.1f} s kept, {again:.1f} s recomputed"
        )
        print(f"recomputed takes {ratio:.2f} times as long (median of {pairs} pairs)")
        return
    found = measure(setting)
    step = found.peak - found.before
    print(
        f"{setting}: {step / GIB:.2f} GiB above {found.before / GIB:.2f} GiB, {step / setting.voxels:.0f} bytes a "
        f"voxel, {found.tensors / setting.voxels:.0f} of tensors, {found.seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
