"""Ensembles: average the probabilities of several networks, for instance from all folds of a cross-validation."""

from collections.abc import Callable, Sequence

import numpy as np

from mtf_imaging.evaluation.averaging.averages import AveragedNetwork, AveragedSlices, mean_of


def over_networks(networks: Sequence[Callable[[np.ndarray], np.ndarray]]) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a network that averages the probabilities of several networks.

    The networks run one after the other. The average needs memory for one sum, in float32 or a wider type, in addition
    to the result of one network.

    >>> mean = over_networks([lambda image: image, lambda image: 3 * image])
    >>> mean(np.ones(2, np.float32))
    array([2., 2.], dtype=float32)

    Args:
      networks: one or more networks, image `[x, y, z, channels]` -> probabilities `[x, y, z, classes]`, on the same
        grid. A single network is returned unchanged.

    Returns:
      A function with the same signature as the networks. If they have a `slices` method, it has one, too.
    """
    if len(networks) == 1:
        return networks[0]

    def average(image: np.ndarray) -> np.ndarray:
        return mean_of([lambda network=network: network(image) for network in networks])

    if not all(hasattr(network, "slices") for network in networks):
        return average

    def slices(sizes: Sequence[int]) -> AveragedSlices:
        every = [network.slices(sizes) for network in networks]
        return AveragedSlices(every[0], [each.predict for each in every])

    return AveragedNetwork(average, slices)
