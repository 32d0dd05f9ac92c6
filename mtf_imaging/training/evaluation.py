"""What an evaluation of held-out cases offers to be run while training; it need not derive from anything here."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

# image [x, y, z, channels] -> what the task predicts of it, [x, y, z, classes]
Predict = Callable[[np.ndarray], np.ndarray]
# What an evaluation measured by name, and pictures by name, uint8 [height, width, 3].
Evaluated = tuple[dict[str, float], dict[str, np.ndarray]]


class Evaluation(Protocol):
    """Cases that are not trained on, and measures of what a network makes of them.

    To compute a held-out loss, an evaluation may define one more method:

        loss_batches(eval_dir, *, batch_size, sizes) -> iterator of dicts, as from `DataSet.batches`

    It yields all cases, in the same order on every call. If the last batch is incomplete, the first cases fill it up.

    Attributes:
      measures: their names; more is better.
    """

    measures: Sequence[str]

    def open(self, eval_dir: str, sizes: tuple[int, ...]) -> Callable[[Predict], Evaluated]:
        """Returns the evaluation of the cases of a folder, as a function of the network.

        The network is to be called once a case; a run that is told to stop leaves the function from within that call.

        Args:
          eval_dir: the folder.
          sizes: voxels along the spatial dimensions of the images that the network takes.

        Raises:
          DataError: the folder cannot be used.
        """
