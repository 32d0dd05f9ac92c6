"""Finds the largest cube whose training step fits a given memory on a CPU, with and without recomputation.

    python -m benchmarks.largest_cube --gib 16              # from small cubes, by their bytes a voxel: minutes
    python -m benchmarks.largest_cube --gib 16 --confirm    # and makes a step of each: hours on 2 cores, and 16 GiB

Every step is made by a process of its own; what counts is all that it held at its peak, by the kernel's account
(Linux). Two small cubes tell bytes a voxel and what does not grow with them. Beside that is what the activations that a
gradient needs would take alone, by the common count of 160 to 210 GiB for 512^3 voxels, 32 filters and bfloat16.
"""

import concurrent.futures
import dataclasses
import itertools
import multiprocessing

from benchmarks.step_memory import GIB, Setting, measure, parser

_COUNTED = 160 / 512**3, 210 / 512**3  # GiB a voxel


def peak_of(setting, steps=1):
    """What a fresh process finds of a setting."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(measure, setting, steps).result()


def fit(setting, sizes):
    """Bytes of a process that makes a step as `(fixed, bytes a voxel)`, by two sizes."""
    small, large = (dataclasses.replace(setting, size=size) for size in sizes)
    peaks = [peak_of(s).peak for s in (small, large)]
    slope = (peaks[1] - peaks[0]) / (large.voxels - small.voxels)
    return peaks[1] - slope * large.voxels, slope


def largest(limit, fixed, slope, multiple):
    """The largest multiple of `multiple` voxels along each axis that fits."""
    side = int(max((limit - fixed) / slope, 0) ** (1 / 3))
    return side // multiple * multiple


def confirmed(setting, limit, multiple):
    """The largest size not above that of the setting whose step, made, holds no more than `limit`, and its `Found`."""
    while setting.size >= multiple:
        found = peak_of(setting)
        if found.peak <= limit:
            return setting.size, found
        setting = dataclasses.replace(setting, size=setting.size - multiple)
    return 0, None


def main():
    shared = "mesh_shape", "layout", "tpu"
    flags = parser(__doc__, shared)
    flags.add_argument("--gib", type=float, default=16, help="memory of a process")
    flags.add_argument("--multiple", type=int, default=16, help="sizes are multiples of this")
    flags.add_argument("--small", type=int, nargs=2, default=(64, 96), help="sizes that tell the bytes a voxel")
    flags.add_argument("--filters", type=int, nargs="+", default=(32, 8), help="base filters of the networks")
    flags.add_argument("--dtypes", nargs="+", default=("bfloat16", "float32"))
    flags.add_argument("--confirm", action="store_true", help="make a step of the largest cube")
    arguments = flags.parse_args()
    limit = arguments.gib * GIB
    base = {name: getattr(arguments, name) for name in shared}

    print(
        f"| filters | dtype | activations | bytes a voxel | and GiB | largest in {arguments.gib:g} GiB | by the count |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for filters, dtype, again in itertools.product(arguments.filters, arguments.dtypes, (False, True)):
        setting = Setting(**base | {"base_filters": filters, "dtype": dtype, "recompute": again})
        fixed, slope = fit(setting, arguments.small)
        size = largest(limit, fixed, slope, arguments.multiple)
        shown = f"{size}^3"
        if arguments.confirm:
            size, found = confirmed(dataclasses.replace(setting, size=size), limit, arguments.multiple)
            shown = f"{size}^3: {found.peak / GIB:.1f} GiB, {found.seconds:.0f} s" if found else "none"
        bits = filters / 32 * (2 if dtype == "float32" else 1)
        low, high = (round((arguments.gib / (gib * bits)) ** (1 / 3)) for gib in reversed(_COUNTED))
        how = "recomputed" if again else "kept"
        print(
            f"| {filters} | {dtype} | {how} | {slope:.0f} | {fixed / GIB:.1f} | {shown} | {low}^3 to {high}^3 |",
            flush=True,
        )


if __name__ == "__main__":
    main()
