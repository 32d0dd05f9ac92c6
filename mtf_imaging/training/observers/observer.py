"""The base class of observers, which receive every step of a run, for instance to write it down."""

from typing import Any


class Observer:
    """Base class of the observers of a run: each writes the methods that it needs.

    Observers are called in the order in which the run has them. A checkpoint of a step is saved after `after`, so what
    is written there is on disk before the run can go on from that step.
    """

    def begin(self, step: int) -> None:
        """Prepares for a run that begins with this step.

        An observer drops what it wrote of this step and later ones, in a run that was killed before it saved.

        Args:
          step: number of the first step, from 0.
        """

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        """Receives a step that was computed. If its loss is not finite, the run ends afterwards.

        Args:
          step: its number, from 0.
          values: numpy scalars by name, "loss" and the task's measures.
          cases: names of the cases of its batch.
          seconds: the median time of the last steps, with the wait for their batches, without observers and
            checkpoints.
          waited: the part of this step's time, 0..1, that was spent waiting for its batch.
        """

    def close(self) -> None:
        """Ends the observation: the run is over, well or not."""
