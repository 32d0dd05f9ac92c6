"""Candidate layouts, and their ranking by memory and step time, without layouts that leave processors idle."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from mtf_imaging.engine.layout import Layout, UnevenSplit, parse_shape, uneven_splits
from mtf_imaging.engine.program.tracing import check
from mtf_imaging.engine.turns.costs import TurnCosts
from mtf_imaging.errors import MtfImagingError
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan, make_plan
from mtf_imaging.planner.cost.start_up import start_ups
from mtf_imaging.planner.cost.step_time import StepTime, step_time
from mtf_imaging.training.step import TracedStep
from mtf_imaging.training.task import Inputs

_MESH_NAMES = ("rows", "cols", "planes")
BATCH = "batch"
_SLABS, _COLUMNS = "slabs", "columns"
_THINNEST = 4  # voxels of a slab; a U-Net needs more memory for thinner ones, because their halos take more
_THICK = 16  # voxels of a slab that is split into columns, and of a column at least


def candidates(num_devices: int, spatial: Sequence[str]) -> Iterator[Layout]:
    """Yields the layouts that split the batch and the spatial dimensions over all devices.

    >>> [str(layout) for layout in candidates(2, ["x"])]
    ['x:rows on rows:2', 'batch:cores on cores:2']

    Args:
      num_devices: the number of devices; each holds one processor.
      spatial: the names of up to three spatial dimensions.
    """
    dims = dict(zip(spatial, _MESH_NAMES, strict=False)) | {BATCH: "cores"}
    for factors in _factors(num_devices, len(dims)):
        split = [(dim, onto, n) for (dim, onto), n in zip(dims.items(), factors, strict=True) if n > 1]
        yield Layout(tuple((onto, n) for _, onto, n in split), tuple((dim, onto) for dim, onto, _ in split))


def _factors(product: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yields all ordered ways to write a product as `count` factors, in descending order of the first factor."""
    if count == 1:
        yield (product,)
        return
    for first in range(product, 0, -1):
        if product % first == 0:
            for rest in _factors(product // first, count - 1):
                yield (first, *rest)


@dataclasses.dataclass(frozen=True)
class Found:
    """A ranked layout.

    Attributes:
      layout: the layout.
      recompute: whether the backward pass recomputes activations.
      plan: the cost of a step.
      time: the duration of a step.
      share: the memory that the step needs, as a share of the memory there is.
    """

    layout: Layout
    recompute: bool
    plan: Plan
    time: StepTime
    share: float

    @property
    def fits(self) -> bool:
        return self.share <= 1


@dataclasses.dataclass(frozen=True)
class Searched:
    """The result of a search.

    Attributes:
      found: the ranked layouts: first the layouts that fit, by step time, then the others, by memory.
      skipped: {layout that is not ranked: reason}, such as idle processors or a network that refuses the layout.
      sizes: {dimension: size} of the inputs.
    """

    found: tuple[Found, ...]
    skipped: dict[Layout, str]
    sizes: Mapping[str, int]

    @property
    def best(self) -> Found | None:
        return next((found for found in self.found if found.fits), None)


class Steps:
    """Traces the step of a job.

    All layouts share one trace unless the network depends on the layout.

    Args:
      trace: a function (layout, recompute) -> `TracedStep`, or None if the network cannot recompute activations.
      inputs: the inputs of the step, {name: (shape string, dtype)}.
    """

    def __init__(self, trace: Callable[[Layout, bool], TracedStep | None], inputs: Inputs) -> None:
        self._trace = trace
        self._same: dict[bool, TracedStep | None] = {}
        self.sizes = {dim: size for shape, _ in inputs.values() for dim, size in parse_shape(shape)}

    def __call__(self, layout: Layout, recompute: bool) -> TracedStep | None:
        if recompute not in self._same:
            step = self._trace(layout, recompute)
            if step is not None and step.traced.mesh.asked:
                return step
            self._same[recompute] = step
        return self._same[recompute]


@dataclasses.dataclass(frozen=True)
class Target:
    """The devices for which layouts are ranked.

    Attributes:
      hardware: the kind of device.
      dtype: the activation dtype.
      memory: bytes that a program can use on each device.
      num_hosts: the number of hosts, which must divide the number of devices.
      mesh_impl: "placement" or "collective"; see `make_plan`.
    """

    hardware: Hardware
    dtype: str
    memory: float
    num_hosts: int = 1
    mesh_impl: str = "placement"

    def rank(self, layout: Layout, recompute: bool, step: TracedStep, turns: TurnCosts | None = None) -> Found:
        """Returns the cost of a step under a layout; see `make_plan`."""
        plan = make_plan(step, layout, num_hosts=self.num_hosts, mesh_impl=self.mesh_impl, turns=turns)
        time = step_time(plan, self.hardware, self.dtype)
        share = plan.memory / self.memory
        if turns is not None and self.hardware.is_host:
            share = max(share, start_ups(plan, turns.inputs)["turns"].process_memory / self.hardware.memory)
        return Found(layout, recompute, plan, time, share)


def search(
    every: Iterable[Layout], steps: Steps, target: Target, recompute: bool = False, only: int | None = None
) -> Searched:
    """Ranks layouts by memory and step time.

    Args:
      every: the layouts to try.
      steps: the function that traces the step of a layout.
      target: the devices.
      recompute: whether the job recomputes activations. If it does not and a layout does not fit, the search also tries
        the layout with recomputation.
      only: the maximum number of layouts to rank; default: all.
    """
    found: list[Found] = []
    skipped, ranked = {}, 0
    for layout in every:
        idle = idle_processors(layout, steps.sizes)
        if idle is not None:
            skipped[layout] = f"{idle}, so processors would be idle"
            continue
        try:
            step = steps(layout, recompute)
            check(step.traced, layout)
        except MtfImagingError as error:
            skipped[layout] = first_fault(error)
            continue
        ranked += 1
        if only is not None and ranked > only:
            break
        found.append(target.rank(layout, recompute, step))
        if not found[-1].fits and not recompute:
            again = steps(layout, True)
            if again is not None:
                found.append(target.rank(layout, True, again))
    found.sort(key=lambda one: (not one.fits, one.time.total if one.fits else one.plan.memory))
    return Searched(tuple(found), skipped, steps.sizes)


def layouts_in_turns(num_devices: int, sizes: Mapping[str, int], spatial: Sequence[str]) -> list[Layout]:
    """Returns the layouts whose processors take turns, those with the most memory for a turn first.

    Slabs along the first spatial dimension get thinner. Then slabs of 16 voxels are split into columns along the
    second dimension, unless devices split it. With several devices, each takes its part of the batch or of the other
    dimensions.

    >>> [layout.mesh_string for layout in layouts_in_turns(1, {"x": 32, "y": 128}, ["x", "y"])]
    ['slabs:2', 'slabs:4', 'slabs:8', 'slabs:2,columns:4', 'slabs:2,columns:8']

    Args:
      num_devices: the number of devices.
      sizes: {dimension: size} of the inputs.
      spatial: the names of the spatial dimensions.
    """
    first, *others = spatial
    at_once = next((one for one in candidates(num_devices, others) if idle_processors(one, sizes) is None), None)
    if at_once is None:
        return []
    size = sizes[first]
    numbers = [n for n in range(2, size // _THINNEST + 1) if size % n == 0 or n.bit_count() == 1]
    turns = [((first, _SLABS, n),) for n in numbers]
    slabs = max((n for n in numbers if size // n >= _THICK), default=0)
    if slabs and others and not any(dim == others[0] for dim, _ in at_once.rules):
        columns = [2**n for n in range(2, (sizes[others[0]] // _THICK).bit_length())]
        turns += [((first, _SLABS, slabs), (others[0], _COLUMNS, n)) for n in columns]
    layouts = [
        Layout(
            (*at_once.mesh_shape, *((mesh, n) for _, mesh, n in split)),
            (*at_once.rules, *((dim, mesh) for dim, mesh, _ in split)),
            tuple(mesh for _, mesh, _ in split),
        )
        for split in turns
    ]
    return [layout for layout in layouts if idle_processors(layout, sizes) is None]


def idle_processors(layout: Layout, sizes: Mapping[str, int]) -> UnevenSplit | None:
    """Returns the first split of an input that has empty slices, or None.

    Args:
      layout: the layout.
      sizes: {dimension: size} of the inputs.
    """
    splits = uneven_splits(layout, [tuple(sizes.items())])
    return next((split for split in splits if split.slices.empty), None)


def first_fault(error: MtfImagingError) -> str:
    """Returns the first fault of a layout error as one line."""
    lines = str(error).splitlines()
    return (lines[1] if len(lines) > 1 else lines[0]).strip()
