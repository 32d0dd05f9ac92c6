"""Finds the largest cube whose training step fits a given memory on a CPU, with and without recomputation.

    python -m benchmarks.largest_cube --gib 16              # extrapolates from small cubes: minutes
    python -m benchmarks.largest_cube --gib 16 --confirm    # also runs a step of each: hours on 2 cores, and 16 GiB

Every step runs in its own process, whose peak memory is read from the Linux kernel. Two small cubes yield the bytes per
voxel and the fixed memory. The last column of the table shows the planner's bytes per voxel for the larger cube.
"""

import concurrent.futures
import dataclasses
import itertools
import multiprocessing

from benchmarks.step_memory import GIB, Setting, measure, parser


def peak_of(setting, steps=1):
    """Measures a setting in a new process."""
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as process:
        return process.submit(measure, setting, steps).result()


def fit(setting, sizes):
    """Returns the memory of a step as `(fixed bytes, bytes per voxel)`, fitted to two sizes."""
    small, large = (dataclasses.replace(setting, size=size) for size in sizes)
    peaks = [peak_of(s).peak for s in (small, large)]
    slope = (peaks[1] - peaks[0]) / (large.voxels - small.voxels)
    return peaks[1] - slope * large.voxels, slope


def largest(limit, fixed, slope, multiple):
    """Returns the largest side in voxels that fits, a multiple of `multiple`."""
    side = int(max((limit - fixed) / slope, 0) ** (1 / 3))
    return side // multiple * multiple


def confirm_largest(setting, limit, multiple):
    """Returns the largest size, up to the setting's, whose step stays within `limit`, and its `Measured`."""
    while setting.size >= multiple:
        measured = peak_of(setting)
        if measured.peak <= limit:
            return setting.size, measured
        setting = dataclasses.replace(setting, size=setting.size - multiple)
    return 0, None


def main():
    shared = "mesh_shape", "layout", "tpu"
    flags = parser(__doc__, shared)
    flags.add_argument("--gib", type=float, default=16, help="memory of a process, in GiB")
    flags.add_argument("--multiple", type=int, default=16, help="divisor of the sizes, in voxels")
    flags.add_argument("--small", type=int, nargs=2, default=(64, 96), help="sizes of the two small cubes, in voxels")
    flags.add_argument(
        "--filters", type=int, nargs="+", default=(32, 8), help="base filters of the networks, a group of rows each"
    )
    flags.add_argument("--dtypes", nargs="+", default=("bfloat16", "float32"), help="types of the activations")
    flags.add_argument("--confirm", action="store_true", help="run a step of the largest cube")
    arguments = flags.parse_args()
    limit = arguments.gib * GIB
    base = {name: getattr(arguments, name) for name in shared}

    print(
        f"| filters | dtype | activations | bytes per voxel | fixed GiB | largest in {arguments.gib:g} GiB | planned |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for filters, dtype, again in itertools.product(arguments.filters, arguments.dtypes, (False, True)):
        setting = Setting(**base | {"base_filters": filters, "dtype": dtype, "recompute": again})
        fixed, slope = fit(setting, arguments.small)
        size = largest(limit, fixed, slope, arguments.multiple)
        shown = f"{size}^3"
        if arguments.confirm:
            size, measured = confirm_largest(dataclasses.replace(setting, size=size), limit, arguments.multiple)
            shown = f"{size}^3: {measured.peak / GIB:.1f} GiB, {measured.seconds:.0f} s" if measured else "none"
        planned = dataclasses.replace(setting, size=max(arguments.small))
        planned_bytes = planned.plan().peak.nbytes / planned.voxels
        how = "recomputed" if again else "kept"
        print(
            f"| {filters} | {dtype} | {how} | {slope:.0f} | {fixed / GIB:.1f} | {shown} | {planned_bytes:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
