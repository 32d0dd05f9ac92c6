"""The explanation of one layout: its plans with kept and with recomputed activations, and the kind of device."""

import dataclasses

from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.plan import Plan
from mtf_imaging.planner.cost.prediction import ImageCost
from mtf_imaging.planner.cost.receptive_field import ReceptiveField
from mtf_imaging.planner.cost.recipe import UNKNOWN_RECIPE, Recipe, RecipeCost, recipe_cost
from mtf_imaging.planner.cost.start_up import StartUp, start_ups
from mtf_imaging.planner.cost.step_time import StepTime, step_time
from mtf_imaging.planner.cost.uneven import Unevenness


@dataclasses.dataclass(frozen=True)
class Explained:
    """The explanation of one layout.

    Attributes:
      plan: the plan of the job.
      other: the plan with recomputation turned off if the job recomputes activations, and turned on otherwise; None if
        the network does not support recomputation.
      recomputes: whether `plan` recomputes activations in the backward pass.
      hardware: the kind of device, or None.
      dtype: the activation dtype.
      batch_size: the number of images per step.
      repeated: mesh dimensions that no rule uses.
      unevenness: the effects of uneven slices.
      batch: input bytes of a whole batch.
      recipe: the training length and the device price.
      receptive_field: the part of the image on which an output voxel depends; None if unknown.
      prediction: the patches of the image, and the costs of predicting the image; None if not asked for.
    """

    plan: Plan
    other: Plan | None
    recomputes: bool
    hardware: Hardware | None
    dtype: str
    batch_size: int
    repeated: tuple[str, ...]
    unevenness: Unevenness
    batch: int
    recipe: Recipe = UNKNOWN_RECIPE
    receptive_field: ReceptiveField | None = None
    prediction: ImageCost | None = None

    @property
    def kept(self) -> Plan | None:
        return self.other if self.recomputes else self.plan

    @property
    def recomputed(self) -> Plan | None:
        return self.plan if self.recomputes else self.other

    @property
    def time(self) -> StepTime | None:
        return self.hardware and step_time(self.plan, self.hardware, self.dtype)

    @property
    def recipe_cost(self) -> RecipeCost | None:
        """The time and the cost of all steps on the devices of the plan, or None if the device is unknown."""
        time = self.time
        return time and recipe_cost(self.recipe, time.total, self.batch_size, self.plan.devices)

    @property
    def start_ups(self) -> dict[str, StartUp]:
        """The start-up costs of each mesh implementation, by name."""
        return start_ups(self.plan, self.batch)

    def fits(self, plan: Plan) -> bool | None:
        """Returns whether a plan fits in device memory, or None if the device is unknown."""
        return self.hardware and plan.memory <= self.hardware.usable_memory
