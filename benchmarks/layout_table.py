"""Prints the table "I have N GPUs of M GiB and volumes of R^3" in docs/guides/gpus.md.

The network is the paper's, in bfloat16.

    python -m benchmarks.layout_table

The network is the one in gin/unet3d_lits.gin, in bfloat16, with one volume per step. All numbers are estimates of the
planner, as in `mtf-imaging search`; no device is used.
"""

import argparse
import functools

from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.models.unet3d import LiverTumorSegmentation, UNet3D
from mtf_imaging.planner.cost.hardware import find_hardware
from mtf_imaging.planner.search.largest import largest_cube
from mtf_imaging.planner.search.search import Steps, Target, candidates, search
from mtf_imaging.training.optimizers import Adafactor
from mtf_imaging.training.step import TrainingStep

DTYPE = "bfloat16"


@functools.cache
def _steps(size, devices):
    names = [f"device:{number}" for number in range(devices)]

    def step(recompute):
        return TrainingStep(LiverTumorSegmentation(UNet3D(recompute=recompute)), Adafactor(), (size,) * 3, dtype=DTYPE)

    return Steps(lambda layout, recompute: step(recompute).trace(layout, names), step(False).part_inputs)


def _search_layouts(size, devices, hardware, every=None, only=None):
    memory = hardware.memory * hardware.usable
    every = candidates(devices, "xyz") if every is None else every
    return search(every, _steps(size, devices), Target(hardware, DTYPE, memory), only=only)


def _cell(found):
    if found is None:
        return "-"
    layout = f"`{found.layout.mesh_string}` `{found.layout.rules_string}`" if found.layout.rules else "whole"
    return f"{layout}{', recomputed' if found.recompute else ''}: {format_bytes(found.plan.memory)}"


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4, 8], help="numbers of GPUs")
    flags.add_argument("--hardware", nargs="+", default=["l4", "a100_40gb", "a100", "h200"], help="kinds of GPU")
    flags.add_argument("--sizes", type=int, nargs="+", default=[256, 384, 512], help="voxels along each axis")
    arguments = flags.parse_args()
    print("|".join(["", " GPUs ", *(f" {size}^3 " for size in arguments.sizes), " largest cube ", ""]))
    print("|".join(["", *([" --- "] * (len(arguments.sizes) + 2)), ""]))
    for name in arguments.hardware:
        hardware = find_hardware(name)
        for devices in arguments.devices:
            cells = [_cell(_search_layouts(size, devices, hardware).best) for size in arguments.sizes]
            every = list(candidates(devices, "xyz"))
            at = functools.partial(_at, devices, hardware)
            largest = largest_cube(at, every, hardware.memory * hardware.usable)
            cells.append(f"{largest[0]}^3, {_cell(largest[1])}" if largest else "-")
            print(f"| {devices} x {name}, {format_bytes(int(hardware.memory))} | {' | '.join(cells)} |", flush=True)


def _at(devices, hardware, size, every, only):
    return _search_layouts(size, devices, hardware, every, only)


if __name__ == "__main__":
    main()
