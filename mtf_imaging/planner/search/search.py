"""Ranking of layouts by memory and step time."""

import dataclasses
from collections.abc import Callable, Iterable

from mtf_imaging.errors import MtfImagingError
from mtf_imaging.layout import Layout
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan, make_plan
from mtf_imaging.planner.cost.step_time import StepTime, step_time
from mtf_imaging.program.tracing import check
from mtf_imaging.training.step import TracedStep


@dataclasses.dataclass(frozen=True)
class Found:
    """A legal layout.

    Attributes:
      layout: the layout.
      recompute: whether the backward pass recomputes activations.
      plan: the cost of a step.
      time: the duration of a step.
      fits: whether the step fits in the memory of a device.
    """

    layout: Layout
    recompute: bool
    plan: Plan
    time: StepTime
    fits: bool


@dataclasses.dataclass(frozen=True)
class Searched:
    """The result of a search.

    Attributes:
      found: the legal layouts: first the layouts that fit, by step time, then the others, by memory.
      illegal: the first fault of each illegal layout.
    """

    found: tuple[Found, ...]
    illegal: dict[Layout, str]

    @property
    def best(self) -> Found | None:
        return next((found for found in self.found if found.fits), None)


class Steps:
    """Traces the step of a job.

    All layouts share one trace unless the network depends on the layout.

    Args:
      trace: a function (layout, recompute) -> `TracedStep`, or None if the network cannot recompute activations.
    """

    def __init__(self, trace: Callable[[Layout, bool], TracedStep | None]):
        self._trace, self._same = trace, {}

    def __call__(self, layout: Layout, recompute: bool) -> TracedStep | None:
        if recompute not in self._same:
            step = self._trace(layout, recompute)
            if step is not None and step.traced.mesh.asked:
                return step
            self._same[recompute] = step
        return self._same[recompute]


def search(
    every: Iterable[Layout],
    steps: Steps,
    hardware: Hardware,
    dtype: str,
    memory: float,
    recompute: bool = False,
    only: int | None = None,
) -> Searched:
    """Ranks layouts by memory and step time.

    Args:
      every: the layouts to try.
      steps: the function that traces the step of a layout.
      hardware: the kind of device.
      dtype: the dtype of the activations.
      memory: bytes that a program can use on each device.
      recompute: whether the job recomputes activations. If it does not and a layout does not fit, the search also tries
        the layout with recomputation.
      only: the number of legal layouts to rank; default: all.
    """
    found, illegal, legal = [], {}, 0
    for layout in every:
        try:
            step = steps(layout, recompute)
            check(step.traced, layout)
        except MtfImagingError as error:
            illegal[layout] = first_fault(error)
            continue
        legal += 1
        if only is not None and legal > only:
            break
        found.append(_found(layout, recompute, step, hardware, dtype, memory))
        if not found[-1].fits and not recompute:
            again = steps(layout, True)
            if again is not None:
                found.append(_found(layout, True, again, hardware, dtype, memory))
    found.sort(key=lambda one: (not one.fits, one.time.total if one.fits else one.plan.memory))
    return Searched(tuple(found), illegal)


def first_fault(error: MtfImagingError) -> str:
    """Returns the first fault of a layout error as one line."""
    lines = str(error).splitlines()
    return (lines[1] if len(lines) > 1 else lines[0]).strip()


def _found(layout, recompute, step, hardware, dtype, memory):
    plan = make_plan(step, layout)
    return Found(layout, recompute, plan, step_time(plan, hardware, dtype), plan.memory <= memory)
