"""The searches of a job that gin has bound, and what is printed of them."""

import sys

from tqdm import tqdm

from mtf_imaging.jobs.plan import Planned, recomputing
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.render.search_table import search_table
from mtf_imaging.planner.render.text import format_seconds
from mtf_imaging.planner.search.candidates import Candidate, candidates
from mtf_imaging.planner.search.largest import largest_cube
from mtf_imaging.planner.search.search import Searched, Steps, search
from mtf_imaging.program.memory import format_bytes


class Searching:
    """Searches for layouts of a job.

    Args:
      planned: the job.
      hardware: the devices.
      memory: bytes that a program can have of a device.
      num_devices: how many devices, all of which are used.
    """

    def __init__(self, planned: Planned, hardware: Hardware, memory: float, num_devices: int):
        self._planned, self._hardware, self._memory, self._number = planned, hardware, memory, num_devices
        self._devices = [f"device:{number}" for number in range(num_devices)]
        self._every = list(candidates(num_devices, [name for name, _ in planned.volume]))

    def print_ranking(self, top: int) -> None:
        """Prints the ranked layouts at the job's resolution, and how to look at the first."""
        searched = self._at(self._planned.sizes, self._every)
        volume = " x ".join(map(str, self._planned.sizes))
        print(f"{self._on()}, {volume} voxels, batch {self._planned.setup.batch_size}, {self._planned.job.dtype}:\n")
        print(search_table(searched, top))
        if not searched.found:
            print(f"\nNo layout of {self._number} processors is legal. Fix: another --num_devices or --resolution.")
            return
        best = searched.best
        if best is None:
            print("\nNothing fits. Fix: more --num_devices, a lower --resolution or --batch_size, or --micro_batches.")
            return
        print(f"\nTo use the first: {_flags(best.candidate)}{_again(best, self._planned.recomputes)}")

    def print_largest(self) -> None:
        """Prints the largest cube, and the layout to train it with."""
        with tqdm(desc="search", unit="size", file=sys.stderr) as bar:

            def search_at(size, every, only):
                bar.update()
                bar.set_postfix_str(f"{size}^3", refresh=True)
                return self._at((size,) * len(self._planned.sizes), every, only, quiet=True)

            found = largest_cube(search_at, self._every, self._memory)
        if found is None:
            print(f"{self._on()}: not even the smallest cube fits. Fix: more --num_devices, or --memory_limit.")
            return
        size, best = found
        kept = "activations computed again in the backward pass" if best.recompute else "all activations kept"
        print(
            f"{self._on()}, batch {self._planned.setup.batch_size}, {self._planned.job.dtype}: up to {size}^3 voxels,"
        )
        print(
            f"{kept}: {format_bytes(best.plan.memory)} of {format_bytes(int(self._memory))} a device, "
            f"{format_seconds(best.time.total)} a step."
        )
        print(f"\nFor that: --resolution {size} {_flags(best.candidate)}{_again(best, self._planned.recomputes)}")

    def _on(self) -> str:
        memory = f"{format_bytes(int(self._memory))} of memory to use on each"
        return f"{self._number} x {self._hardware.name}, {memory}"

    def _at(self, sizes, every, only=None, quiet=False) -> Searched:
        def trace(candidate, recompute):
            task = self._planned.job.task
            if recompute != self._planned.recomputes:
                task = recomputing(task, recompute)
            if task is None:
                return None
            return self._planned.step(task, sizes, *candidate, devices=self._devices)

        job, options = self._planned.job, {"recompute": self._planned.recomputes, "only": only}
        every = tqdm(every, desc="search", unit="layout", disable=quiet, leave=False, file=sys.stderr)
        return search(every, Steps(trace), self._hardware, job.dtype, self._memory, **options)


def _flags(candidate: Candidate) -> str:
    return f"--mesh_shape {candidate.mesh_shape or repr('')} --layout {candidate.layout or repr('')}"


def _again(best, recomputes) -> str:
    return " --gin.UNet3D.recompute=True" if best.recompute and not recomputes else ""
