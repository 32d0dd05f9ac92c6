"""Searches for the fastest layout and for the largest trainable cube."""

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tqdm import tqdm

from mtf_imaging.engine.layout import Layout, parse_shape
from mtf_imaging.engine.meshes.grid import ShardGrid
from mtf_imaging.engine.program.in_turns import free_space
from mtf_imaging.engine.program.memory import format_bytes
from mtf_imaging.errors import ConfigError, MtfImagingError
from mtf_imaging.jobs.explaining import planned_step
from mtf_imaging.jobs.steps.costs import Hosts, turn_costs, volume_of
from mtf_imaging.jobs.steps.recomputation import recomputes_activations, with_recomputation
from mtf_imaging.planner.cost.hardware import Hardware, find_hardware
from mtf_imaging.planner.cost.interconnect import Interconnect
from mtf_imaging.planner.search import largest
from mtf_imaging.planner.search.search import (
    Found,
    Searched,
    Steps,
    Target,
    candidates,
    first_fault,
    layouts_in_turns,
)
from mtf_imaging.planner.search.search import search as search_layouts
from mtf_imaging.settings.planning import LargestCubeSettings, PlannedStepSettings, SearchSettings
from mtf_imaging.settings.setting import filled, takes
from mtf_imaging.training.step import TracedStep, TrainingStep


class PlannedDevices(NamedTuple):
    """The devices for which layouts are ranked; each computes one processor.

    Attributes:
      number: the number of devices.
      hardware: the kind of device.
      memory_limit: bytes of device memory available to tensors; None for the usable share of the memory.
      num_hosts: the number of hosts.
      mesh_impl: the mesh implementation, as in `search`.
      offload_dir: the folder in which the slices of processors wait for their turn; None for the default of `Program`.
    """

    number: int
    hardware: Hardware
    memory_limit: float | None = None
    num_hosts: int = 1
    mesh_impl: str = "auto"
    offload_dir: str | None = None

    @property
    def memory(self) -> float:
        """The bytes of device memory that are available to tensors."""
        return self.hardware.usable_memory if self.memory_limit is None else self.memory_limit

    def target(self, dtype: str) -> Target:
        """Returns the target of a search for steps with a dtype.

        Raises:
          ConfigError: `num_hosts` does not divide the number of devices, or the mesh implementation has one device.
        """
        hosts = Hosts.of(self.num_hosts, self.mesh_impl)
        if hosts.mesh_impl == "stacked":
            raise ConfigError(
                "mesh_impl is 'stacked', which puts all processors on one device, but search puts one processor on "
                "each device. Fix: choose placement, collective or auto.",
                ["mesh_impl"],
            )
        Interconnect(ShardGrid.make((self.number,), self.number), *hosts)  # raises if hosts are unequal
        return Target(self.hardware, dtype, self.memory, *hosts)


@takes(SearchSettings)
def search(own: SearchSettings) -> Searched:
    """Ranks all layouts for a number of devices by the step time that the planner predicts.

    If no layout fits that uses all processors at once, processors take turns, as few as possible.

    Returns:
      The layouts, fastest first. `report` formats them as a table.

    Raises:
      ConfigError: an argument is invalid.
    """
    return search_step(planned_step(own), _devices(own), progress=own.progress)


@takes(LargestCubeSettings)
def largest_cube(own: LargestCubeSettings) -> tuple[int, Found] | None:
    """Returns the side of the largest cube that fits in memory, with the fastest layout for it.

    Returns:
      The pair (voxels along each axis, layout), or None if no cube fits.

    Raises:
      ConfigError: an argument is invalid.
    """
    smallest = filled(PlannedStepSettings, own, resolution=(largest.STEP,) * own.dims)
    find = largest_cube_in_turns_of if own.in_turns else largest_cube_of
    return find(planned_step(smallest), _devices(own), progress=own.progress)


def _devices(own: SearchSettings | LargestCubeSettings) -> PlannedDevices:
    hardware = find_hardware(own.hardware) if isinstance(own.hardware, str) else own.hardware
    return PlannedDevices(own.num_devices, hardware, own.memory_limit, own.num_hosts, own.mesh_impl, own.offload_dir)


def search_step(
    step: TrainingStep, devices: PlannedDevices, *, progress: bool = True, may_take_turns: bool = True
) -> Searched:
    """Does the same as `search`, for a `TrainingStep`.

    Args:
      step: the step.
      devices: the devices.
      progress: whether to show progress.
      may_take_turns: whether to try processors in turns if no layout fits.
    """
    searched = _searcher(step, devices, progress)(step.sizes, _layouts(step, devices))
    # Turns store activations elsewhere, but a device keeps its weights and the optimizer state.
    least = min((found.plan.weights + found.plan.state for found in searched.found), default=0)
    if searched.best is not None or not may_take_turns or least > devices.memory:
        return searched
    found, reason = search_turns(step, devices, progress)
    if found is not None:
        return dataclasses.replace(searched, found=(found, *searched.found))
    return dataclasses.replace(searched, skipped=reason | searched.skipped)


def search_turns(
    step: TrainingStep, devices: PlannedDevices, progress: bool = False
) -> tuple[Found | None, dict[Layout, str]]:
    """Returns the layout with the fewest turns that fits, or a reason that none does.

    The step is lowered for each number of turns that is tried: 3 for a volume of 512^3 voxels.
    """
    layouts, best, reason = _layouts_in_turns(step, devices), None, {}
    begin, end = 0, len(layouts)
    bar = tqdm(desc="search", unit="number of turns", disable=not progress, leave=False, file=sys.stderr)
    while begin < end:
        bar.update()
        layout = layouts[(begin + end) // 2]
        try:
            found = _rank_turns(step, devices, layout)
        except MtfImagingError as error:
            return None, {layout: first_fault(error)}
        turns, free = found.plan.turns, free_space(devices.offload_dir)
        if turns and turns.waiting > free:
            needs = f"turns store {format_bytes(turns.waiting)}, but {format_bytes(free)} are free"
            return None, {layout: f"{needs}; another offload_dir may have more space"}
        if found.fits:
            best, end = found, (begin + end) // 2
        else:
            reason = {layout: f"even a turn needs {format_bytes(found.plan.memory)}"}
            begin = (begin + end) // 2 + 1
    return best, reason


def _layouts_in_turns(step: TrainingStep, devices: PlannedDevices) -> list[Layout]:
    sizes = dict(parse_shape(next(iter(step.part_inputs.values()))[0]))
    layouts = layouts_in_turns(devices.number, sizes, [name for name, _ in volume_of(step)])
    return [dataclasses.replace(layout, offload_dir=devices.offload_dir) for layout in layouts]


def _rank_turns(step: TrainingStep, devices: PlannedDevices, layout: Layout) -> Found:
    recompute, turns = recomputes_activations(step.task), turn_costs(step, layout)
    return devices.target(step.dtype).rank(layout, recompute, step.trace(layout), turns)


def largest_cube_of(step: TrainingStep, devices: PlannedDevices, *, progress: bool = True) -> tuple[int, Found] | None:
    """Does the same as `largest_cube`, for a `TrainingStep` with images of any size."""
    at = _searcher(step, devices, progress=False)
    with tqdm(desc="search", unit="size", file=sys.stderr, disable=not progress) as bar:

        def search_at(size: int, every: Sequence[Layout], only: int | None) -> Searched:
            bar.update()
            bar.set_postfix_str(f"{size}^3", refresh=True)
            return at((size,) * len(step.sizes), every, only)

        return largest.largest_cube(search_at, _layouts(step, devices), devices.memory)


def largest_cube_in_turns_of(
    step: TrainingStep, devices: PlannedDevices, *, progress: bool = True
) -> tuple[int, Found] | None:
    """Returns the side of the largest cube that fits if processors take turns, with the layout of the smallest turns.

    The step is lowered for each size that is tried: about 6 for a cube of 500^3 voxels.
    """

    def need(size: int) -> float:
        bar.update()
        cube = step.resized((size,) * len(step.sizes))
        try:
            found[size] = _rank_turns(cube, devices, _layouts_in_turns(cube, devices)[-1])
        except (IndexError, MtfImagingError):  # too few voxels for turns, or a size that the network does not accept
            return math.inf
        turns = found[size].plan.turns
        return max(found[size].share, turns.waiting / free_space(devices.offload_dir) if turns else 0.0)

    found: dict[int, Found] = {}
    with tqdm(desc="search", unit="size in turns", file=sys.stderr, disable=not progress) as bar:
        size = largest.largest_size(need)
    return None if size is None else (size, found[size])


def _layouts(step: TrainingStep, devices: PlannedDevices) -> list[Layout]:
    return list(candidates(devices.number, [name for name, _ in volume_of(step)]))


def _searcher(step: TrainingStep, devices: PlannedDevices, progress: bool) -> Callable[..., Searched]:
    """Returns a function (sizes, layouts, maximum number of layouts to rank) -> `Searched`."""
    target, recomputes = devices.target(step.dtype), recomputes_activations(step.task)
    names = [f"device:{number}" for number in range(devices.number)]

    def search_at(sizes: tuple[int, ...], layouts: Sequence[Layout], only: int | None = None) -> Searched:
        at = step.resized(sizes)

        def trace(layout: Layout, recompute: bool) -> TracedStep | None:
            variant = at if recompute == recomputes else with_recomputation(at, recompute)
            return None if variant is None else variant.trace(layout, names)

        shown = tqdm(layouts, desc="search", unit="layout", disable=not progress, leave=False, file=sys.stderr)
        searched = search_layouts(shown, Steps(trace, at.part_inputs), target, recomputes, only)
        if not searched.found:
            at.trace()  # raises the error of a network that no layout fits
        return searched

    return search_at
