"""Comparison of the cost model with measurements."""

import dataclasses
from collections.abc import Sequence

from mtf_imaging.planner.bench.compare import Row
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.recipe import UNKNOWN_RECIPE, Recipe, RecipeCost, recipe_cost
from mtf_imaging.planner.cost.step_time import step_time


@dataclasses.dataclass(frozen=True)
class Bench:
    """The result of a bench.

    Attributes:
      rows: the measurements of each setup.
      hardware: the measured rates of this machine.
      dtype: the activation dtype.
      batch_size: the number of images per step.
      parts: the number of micro-batches per step.
      differences: descriptions of values that differ between setups by more than rounding; empty if there are none.
      recipe: the training length and the device price.
    """

    rows: Sequence[Row]
    hardware: Hardware
    dtype: str
    batch_size: int
    parts: int
    differences: tuple[str, ...] = ()
    recipe: Recipe = UNKNOWN_RECIPE

    @property
    def equal(self) -> bool:
        """Whether all setups computed equal values."""
        return not self.differences

    def estimate(self, row: Row) -> dict | None:
        """Returns the model's estimates of a step as "seconds", "memory_bytes" and "moved_bytes".

        The memory is comparable with the measured memory: it excludes variables, which exist before the step, and
        covers one GPU or all CPU devices.
        """
        if row.plan is None or not row.devices:
            return None
        number = len(row.devices)
        memory = row.plan.memory - row.held // number
        together = 1 if _on_gpus(row) else number
        seconds = step_time(row.plan, self.hardware, self.dtype).total
        return {"seconds": seconds, "memory_bytes": memory * together, "moved_bytes": row.plan.moved}

    def recipe_cost(self, row: Row) -> RecipeCost | None:
        """Returns the time and cost of all steps, from the measured step; None if the row has no measured step.

        The logical CPU devices of this machine count as one device.
        """
        if row.seconds is None or not row.devices:
            return None
        devices = len(row.devices) if _on_gpus(row) else 1
        return recipe_cost(self.recipe, row.seconds, self.batch_size, devices)

    def error(self, row: Row) -> dict[str, float | None]:
        """Returns the estimates divided by the measured values.

        The keys are "step" for the time, "tensors" for the tensor memory, and "memory" for the process memory.
        """
        estimate = self.estimate(row)
        pairs = {"step": ("seconds", row.seconds), "tensors": ("memory_bytes", row.tensors)}
        pairs["memory"] = ("memory_bytes", row.peak)
        return {what: estimate[key] / value if estimate and value else None for what, (key, value) in pairs.items()}


def _on_gpus(row: Row) -> bool:
    return "GPU" in row.devices[0].upper()
