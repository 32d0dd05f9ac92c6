"""Measures the memory of one training step of the paper's network on a CPU: bytes a voxel, for `gin/unet3d_lits_*.gin`.

    python benchmarks/step_memory.py --size 96 --dtype bfloat16 --mesh_shape rows:2 --layout x:rows

The peak of a fresh process over what it held before the step, by the kernel's account (Linux), for one volume of
size^3 voxels. It counts activations, what the step computes on the way, gradients and the libraries' workspace; the
weights, their slots and the program are in what was held before.
"""

import argparse
import resource

import numpy as np

import mtf_imaging as mi
from mtf_imaging.models.unet3d import Task, UNet3D
from mtf_imaging.training.adafactor import Adafactor
from mtf_imaging.training.step import training_step


def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=64, help="voxels along each axis")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--base_filters", type=int, default=32)
    parser.add_argument("--mesh_shape", default="")
    parser.add_argument("--layout", default="")
    parser.add_argument("--recompute", action="store_true", help="compute the activations of a block again")
    arguments = parser.parse_args()

    sizes = (arguments.size,) * 3
    task = Task(UNet3D(base_filters=arguments.base_filters, recompute=arguments.recompute))
    program = mi.Program(
        training_step(task, Adafactor()),
        task.inputs(1, sizes, arguments.dtype),
        mesh_shape=arguments.mesh_shape,
        layout=arguments.layout,
        mesh_impl="stacked",
    )
    rng = np.random.default_rng(0)
    batch = {"image": rng.random((1, *sizes, 1), np.float32), "labels": rng.integers(0, 3, (1, *sizes), np.int32)}
    before = peak_bytes()
    program(**batch)
    step = peak_bytes() - before
    print(
        f"{arguments.size}^3 {arguments.dtype}, layout '{arguments.layout}': {step / 2**30:.2f} GiB above "
        f"{before / 2**30:.2f} GiB, {step / arguments.size**3:.0f} bytes a voxel"
    )


if __name__ == "__main__":
    main()
