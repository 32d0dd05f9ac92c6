"""The model held against what it models."""

import dataclasses
from collections.abc import Sequence

from mtf_imaging.planner.bench.compare import Row
from mtf_imaging.planner.cost.hardware import Hardware
from mtf_imaging.planner.cost.step_time import step_time


@dataclasses.dataclass(frozen=True)
class Bench:
    """All that is said.

    Attributes:
      rows: of the setups.
      hardware: this machine.
      dtype: of the activations.
      batch_size: images in a step.
      parts: micro-batches of a step.
      differences: values that differ between setups by more than rounding; there should be none.
    """

    rows: Sequence[Row]
    hardware: Hardware
    dtype: str
    batch_size: int
    parts: int
    differences: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether all setups computed the same."""
        return not self.differences

    def modelled(self, row: Row) -> dict | None:
        """Seconds and bytes of a step by the model, as "seconds", "memory_bytes" and "moved_bytes".

        Memory is what is measured: without variables, which a process holds before; of a GPU, or of all CPU devices.
        """
        if row.plan is None or not row.devices:
            return None
        number = len(row.devices)
        memory = row.plan.memory - row.held // number
        together = 1 if "GPU" in row.devices[0].upper() else number
        seconds = step_time(row.plan, self.hardware, self.dtype).total
        return {"seconds": seconds, "memory_bytes": memory * together, "moved_bytes": row.plan.moved}

    def error(self, row: Row) -> dict[str, float | None]:
        """The modelled as a share of the measured: "step", and the modelled memory of "tensors" and of all "memory"."""
        modelled = self.modelled(row)
        pairs = {"step": ("seconds", row.seconds), "tensors": ("memory_bytes", row.tensors)}
        pairs["memory"] = ("memory_bytes", row.peak)
        return {what: modelled[of] / value if modelled and value else None for what, (of, value) in pairs.items()}
