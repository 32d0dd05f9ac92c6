"""The base class of observers, which receive every step of a run, for instance to log it."""

from typing import Any


class Observer:
    """Base class of the observers of a run; a subclass overrides the methods that it needs.

    Observers are called in the order of the list that is passed to the loop. The checkpoint of a step is saved after
    all calls of `after`, so the output of `after` is on disk before a run can resume from that step.
    """

    def begin(self, step: int) -> None:
        """Prepares for a run that begins with this step.

        If an earlier run was killed after its last checkpoint, the observer deletes its output for this step and later.

        Args:
          step: number of the first step, from 0.
        """

    def after(self, step: int, values: dict[str, Any], cases: list[str], seconds: float, waited: float) -> None:
        """Receives the result of a step. If its loss is not finite, the run ends afterwards.

        Args:
          step: number of the step, from 0.
          values: NumPy scalars by name: "loss" and the task's measures.
          cases: names of the cases in the batch.
          seconds: median duration of the most recent steps in seconds. It includes the wait for their batches, but not
            observers and checkpoints.
          waited: fraction of this step's duration, 0 to 1, that was spent waiting for the batch.
        """

    def close(self) -> None:
        """Releases resources at the end of the run, whether it succeeded or failed."""
