"""Searches for the fastest layout and for the largest trainable cube."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from mtf_imaging.errors import ConfigError
from mtf_imaging.jobs.explaining import (
    planned_step,
    recomputes_activations,
    resolve_mesh_impl,
    volume_of,
    with_recomputation,
)
from mtf_imaging.jobs.settings import check_count
from mtf_imaging.kinds.settings import Resolution
from mtf_imaging.layout import Layout
from mtf_imaging.meshes.grid import ShardGrid
from mtf_imaging.planner.cost.hardware import Hardware, find_hardware
from mtf_imaging.planner.cost.interconnect import Interconnect
from mtf_imaging.planner.search import largest
from mtf_imaging.planner.search.candidates import candidates
from mtf_imaging.planner.search.search import Found, Searched, Steps
from mtf_imaging.planner.search.search import search as search_layouts
from mtf_imaging.training.optimizers import Optimizer
from mtf_imaging.training.step import TracedStep, TrainingStep
from mtf_imaging.training.task import Task


def search(
    *,
    task: Task,
    resolution: Resolution,
    num_devices: int,
    hardware: Hardware | str,
    memory_limit: float | None = None,
    optimizer: Optimizer | None = None,
    batch_size: int = 1,
    micro_batches: int = 1,
    dtype: str = "float32",
    num_hosts: int = 1,
    mesh_impl: str = "auto",
    progress: bool = True,
) -> Searched:
    """Ranks all layouts for a number of devices by the step time that the planner predicts.

    Args:
      task: the network and its loss.
      resolution: voxels along x, y and z.
      num_devices: number of devices; each computes one processor.
      hardware: the kind of device, or its name, such as "a100".
      memory_limit: bytes of device memory available to tensors; None for the usable share of the hardware's memory.
      optimizer: the optimizer; None for Adam.
      batch_size: images in a step, summed over all processors.
      micro_batches: number of equal pieces of a batch, computed one after the other.
      dtype: the dtype of images and activations.
      num_hosts: number of hosts, which must divide the number of devices.
      mesh_impl: the mesh implementation, "placement" or "collective"; "auto" is "placement" on one host and
        "collective" on several hosts.
      progress: whether to show a progress bar.

    Returns:
      The layouts, fastest first. `report` formats them as a table.

    Raises:
      ConfigError: an argument is invalid.
    """
    step = planned_step(task, resolution, optimizer, batch_size, micro_batches, dtype)
    return search_step(step, num_devices, hardware, memory_limit, num_hosts, mesh_impl, progress=progress)


def largest_cube(
    *,
    task: Task,
    num_devices: int,
    hardware: Hardware | str,
    memory_limit: float | None = None,
    dims: int = 3,
    optimizer: Optimizer | None = None,
    batch_size: int = 1,
    micro_batches: int = 1,
    dtype: str = "float32",
    num_hosts: int = 1,
    mesh_impl: str = "auto",
    progress: bool = True,
) -> tuple[int, Found] | None:
    """Returns the side of the largest cube that fits in memory, with the fastest layout for it.

    Args:
      task: a `Task`: the network and its loss.
      num_devices: number of devices; each computes one processor.
      hardware: the kind of device, or its name, such as "a100".
      memory_limit: bytes of device memory available to tensors; None for the usable share of the hardware's memory.
      dims: number of spatial dimensions of the images.
      optimizer: the optimizer; None for Adam.
      batch_size: images in a step, summed over all processors.
      micro_batches: number of equal pieces of a batch, computed one after the other.
      dtype: the dtype of images and activations.
      num_hosts: number of hosts, which must divide the number of devices.
      mesh_impl: the mesh implementation, "placement" or "collective"; "auto" is "placement" on one host and
        "collective" on several hosts.
      progress: whether to show a progress bar.

    Returns:
      The pair (voxels along each axis, layout), or None if no cube fits.

    Raises:
      ConfigError: an argument is invalid.
    """
    smallest = (largest.STEP,) * dims
    step = planned_step(task, smallest, optimizer, batch_size, micro_batches, dtype)
    return largest_cube_of(step, num_devices, hardware, memory_limit, num_hosts, mesh_impl, progress=progress)


def search_step(
    step: TrainingStep,
    num_devices: int,
    hardware: Hardware | str,
    memory_limit: float | None = None,
    num_hosts: int = 1,
    mesh_impl: str = "auto",
    *,
    progress: bool = True,
) -> Searched:
    """Does the same as `search`, for a `TrainingStep`."""
    check_count("num_devices", num_devices)
    connected = _check_connected(num_devices, num_hosts, mesh_impl)
    search_at = _searcher(step, num_devices, hardware, memory_limit, connected, progress)
    return search_at(step.sizes, _layouts(step, num_devices))


def largest_cube_of(
    step: TrainingStep,
    num_devices: int,
    hardware: Hardware | str,
    memory_limit: float | None = None,
    num_hosts: int = 1,
    mesh_impl: str = "auto",
    *,
    progress: bool = True,
) -> tuple[int, Found] | None:
    """Does the same as `largest_cube`, for a `TrainingStep` with images of any size."""
    check_count("num_devices", num_devices)
    connected = _check_connected(num_devices, num_hosts, mesh_impl)
    at = _searcher(step, num_devices, hardware, memory_limit, connected, progress=False)
    with tqdm(desc="search", unit="size", file=sys.stderr, disable=not progress) as bar:

        def search_at(size: int, every: Sequence[Layout], only: int | None) -> Searched:
            bar.update()
            bar.set_postfix_str(f"{size}^3", refresh=True)
            return at((size,) * len(step.sizes), every, only)

        return largest.largest_cube(search_at, _layouts(step, num_devices), usable_memory(hardware, memory_limit))


def usable_memory(hardware: Hardware | str, memory_limit: float | None) -> float:
    """Returns the bytes of device memory that are available to tensors."""
    hardware = find_hardware(hardware) if isinstance(hardware, str) else hardware
    return hardware.memory * hardware.usable if memory_limit is None else memory_limit


def _check_connected(num_devices: int, num_hosts: int, mesh_impl: str) -> dict[str, Any]:
    """Returns the keyword arguments of `search_layouts` for the hosts and the mesh implementation.

    Raises:
      ConfigError: `num_hosts` does not divide `num_devices`, or the mesh implementation has one device only.
    """
    mesh_impl = resolve_mesh_impl(mesh_impl, num_hosts)
    if mesh_impl == "stacked":
        raise ConfigError(
            "mesh_impl is 'stacked', which puts all processors on one device, but search puts one processor on each "
            "device. Fix: choose placement, collective or auto.",
            ["mesh_impl"],
        )
    Interconnect(ShardGrid.make((num_devices,), num_devices), num_hosts, mesh_impl)  # raises if hosts are unequal
    return {"num_hosts": num_hosts, "mesh_impl": mesh_impl}


def _layouts(step: TrainingStep, num_devices: int) -> list[Layout]:
    return list(candidates(num_devices, [name for name, _ in volume_of(step)]))


def _searcher(
    step: TrainingStep,
    num_devices: int,
    hardware: Hardware | str,
    memory_limit: float | None,
    connected: Mapping[str, Any],
    progress: bool,
) -> Callable[..., Searched]:
    """Returns a function (sizes, layouts, maximum number of layouts to rank) -> `Searched`."""
    kind = find_hardware(hardware) if isinstance(hardware, str) else hardware
    memory, recomputes = usable_memory(kind, memory_limit), recomputes_activations(step.task)
    devices = [f"device:{number}" for number in range(num_devices)]

    def search_at(sizes: tuple[int, ...], layouts: Sequence[Layout], only: int | None = None) -> Searched:
        at = step.resized(sizes)

        def trace(layout: Layout, recompute: bool) -> TracedStep | None:
            variant = at if recompute == recomputes else with_recomputation(at, recompute)
            return None if variant is None else variant.trace(layout, devices)

        shown = tqdm(layouts, desc="search", unit="layout", disable=not progress, leave=False, file=sys.stderr)
        return search_layouts(
            shown, Steps(trace, at.part_inputs), kind, step.dtype, memory, recompute=recomputes, only=only, **connected
        )

    return search_at
