"""Ensembles: the mean of the probabilities of several networks, such as those of the folds of a cross-validation."""

from collections.abc import Callable, Sequence

import numpy as np


def over_networks(networks: Sequence[Callable[[np.ndarray], np.ndarray]]) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a network that averages the probabilities of several networks.

    The networks run one after the other. The average needs memory for one sum, in float32 or a wider type, in addition
    to the result of one network.

    >>> mean = over_networks([lambda image: image, lambda image: 3 * image])
    >>> mean(np.ones(2, np.float32))
    array([2., 2.], dtype=float32)

    Args:
      networks: one or more networks, image `[x, y, z, channels]` -> probabilities `[x, y, z, classes]`, on the same
        grid. A single network is returned itself.

    Returns:
      A function with the same signature as the networks.
    """
    if len(networks) == 1:
        return networks[0]

    def average(image: np.ndarray) -> np.ndarray:
        total = None
        for network in networks:
            result = network(image)
            if total is None:
                total = np.array(result, np.promote_types(result.dtype, np.float32))
            else:
                total += result
            del result  # before the next network allocates its own
        total /= len(networks)
        return total

    return average
