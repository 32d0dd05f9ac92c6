"""Who is told of a run, step by step, for instance to write it down."""


class Observer:
    """Base class of the observers of a run: each writes the methods that it needs.

    Observers are called in the order in which the run has them. A checkpoint of a step is saved after `after`, so what
    is written there is on disk before the run can go on from that step.
    """

    def begin(self, step: int) -> None:
        """The run begins with this step; what was observed of later ones, in a run that did not get to save, goes."""

    def after(self, step: int, values: dict, cases: list[str], seconds: float, waited: float) -> None:
        """Step number `step`, from 0, is made. Its loss may not be finite: the run ends then.

        Args:
          step: its number.
          values: numpy scalars by name, "loss" and the task's measures.
          cases: names of what was in its batch.
          seconds: that a step takes: the median of the last ones, with the wait for their batches, without what
            observers and checkpoints took.
          waited: the part of this step's time, 0..1, that was spent waiting for its batch.
        """

    def close(self) -> None:
        """The run ends, well or not."""
