"""The protocol for evaluations of held-out cases; an evaluation does not have to derive from it."""

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from mtf_imaging.inference.network import Prediction

# Maps an image [x, y, z, channels] to its prediction.
Predict = Callable[[np.ndarray], Prediction]
# Measures by name, and pictures by name, uint8 [height, width, 3].
Evaluated = tuple[dict[str, float], dict[str, np.ndarray]]


class Evaluation(Protocol):
    """Held-out cases, and measures of the predictions for them.

    To compute a held-out loss, an evaluation may define an additional method:

        loss_batches(eval_dir, *, batch_size, sizes) -> iterator of dicts, as in `DataSet.batches`

    It yields all cases, in the same order on every call. If the last batch is incomplete, the first cases fill it up.
    If the evaluation can read regions of the cases, it also defines a second method, which training calls instead:

        loss_region_batches(eval_dir, *, batch_size, sizes, micro_batches, regions) -> iterator of dicts

    `regions(sizes)` returns the `TensorRegion` of each input that this process computes, for images of these sizes. The
    method yields the same batches, in `micro_batches` equal pieces one after the other. Each piece contains the regions
    of the inputs, and "sizes", the sizes of its images.

    Attributes:
      measures: the names of the measures; higher is better.
    """

    measures: Sequence[str]

    def open(self, eval_dir: str, sizes: tuple[int, ...] | None) -> Callable[[Predict], Evaluated]:
        """Returns a function that evaluates a network on the cases of a folder.

        The function should call the network once per case. If the run is asked to stop, calling the network raises an
        exception that ends the evaluation.

        Args:
          eval_dir: the folder.
          sizes: voxels of the network's input along each spatial dimension; None if the training images have several
            sizes. The network then takes images of any size.

        Raises:
          DataError: the folder is invalid.
        """
