"""All that is said of one layout: a plan, the same with activations recomputed, and a kind of device."""

import dataclasses

from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan
from mtf_imaging.planner.cost.step_time import StepTime, step_time


@dataclasses.dataclass(frozen=True)
class Explained:
    """All that is said of one layout.

    Attributes:
      plan: of the job as it is.
      other: the same with activations computed again in the backward pass, or without where the job has that; None for
        a network that has no such choice.
      recomputes: whether `plan` computes them again.
      hardware: or None.
      dtype: of the activations.
      batch_size: of a step.
      repeated: mesh dimensions that nothing is split over.
    """

    plan: Plan
    other: Plan | None
    recomputes: bool
    hardware: Hardware | None
    dtype: str
    batch_size: int
    repeated: tuple[str, ...]

    @property
    def kept(self) -> Plan | None:
        return self.other if self.recomputes else self.plan

    @property
    def recomputed(self) -> Plan | None:
        return self.plan if self.recomputes else self.other

    @property
    def time(self) -> StepTime | None:
        return self.hardware and step_time(self.plan, self.hardware, self.dtype)

    def fits(self, plan: Plan) -> bool | None:
        """Whether a device holds it, None where the device is not known."""
        return self.hardware and plan.memory <= self.hardware.memory * self.hardware.usable
