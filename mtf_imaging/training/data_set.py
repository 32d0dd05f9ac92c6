"""What a data set offers to be trained on; it need not derive from anything here."""

from collections.abc import Iterator
from typing import Protocol


class DataSet(Protocol):
    """Images and what is to be learned of them, in batches."""

    def sizes(self, data_dir: str) -> tuple[int, ...]:
        """Voxels of the images along their spatial dimensions, where nobody asks for others.

        Raises:
          DataError: the folder cannot be used.
        """

    def batches(
        self, data_dir: str, *, batch_size: int, sizes: tuple[int, ...], seed: int, start_step: int
    ) -> Iterator[dict]:
        """Batches without end, from that of step `start_step` on: batch k must not depend on where the run began.

        Yields:
          Arrays by the names of the task's inputs, and "cases", a list of names of what is in the batch, for messages.

        Raises:
          DataError: at once, before the first batch is asked for, if the folder cannot be used.
        """
