"""The uncertainty of a prediction, from the probabilities of several networks or flips.

The members, whose probabilities are averaged, are the networks of an ensemble and the flips of an image. For the mean p
of their probabilities p_m, in nats:

    entropy             H(p) = -sum over classes of p * log(p)         how uncertain the prediction is
    mutual information  H(p) - mean over members of H(p_m)             how much the members disagree

The mutual information is 0 where all members agree, even if each of them is uncertain. Sources: Kendall and Gal (2017),
"What uncertainties do we need in Bayesian deep learning for computer vision?", and Lakshminarayanan et al. (2017),
"Simple and scalable predictive uncertainty estimation using deep ensembles".
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import entr

ENTROPY, MUTUAL_INFORMATION = "entropy", "mutual_information"
_ROUNDING = 1e-6  # the mean of equal members differs from them by float32 rounding errors


def entropy(probabilities: np.ndarray, has_regions: bool = False) -> np.ndarray:
    """Returns the entropy of each voxel's probabilities, in nats.

    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [0.6931471824645996, 0.0]

    Args:
      probabilities: `[..., classes]`, or `[..., masks]` for masks that do not exclude each other.
      has_regions: whether the probabilities belong to masks. The entropy is then the sum of the entropies of all masks.

    Returns:
      float32 `[...]`.
    """
    values = np.asarray(probabilities, np.float32)
    terms = entr(np.clip(values, 0, 1))
    if has_regions:
        terms = terms + entr(np.clip(1 - values, 0, 1))
    return terms.sum(axis=-1, dtype=np.float32)


def with_entropy(network: Callable, has_regions: bool = False) -> Callable:
    """Returns a network that appends the entropy to its probabilities.

    If such networks are averaged over members, the last value is the mean entropy of the members.

    Args:
      network: a network, image `[x, y, z, channels]` -> probabilities `[x, y, z, classes]`.
      has_regions: see `entropy`.

    Returns:
      A function with the same signature, `[x, y, z, classes + 1]`. If the network has the method `slices`, it has this
      method, too.
    """
    result = _WithEntropy(network, has_regions)
    return _SlicesWithEntropy(network, has_regions) if hasattr(network, "slices") else result


def uncertainty(values: np.ndarray, has_regions: bool = False, several: bool = True) -> np.ndarray:
    """Returns the entropy and the mutual information of each voxel.

    Args:
      values: `[x, y, z, classes + 1]`: the mean probabilities, then the mean entropy of the members.
      has_regions: see `entropy`.
      several: whether there are several members; otherwise, there is no mutual information.

    Returns:
      float32 `[x, y, z, 2]`, or `[x, y, z, 1]` with only the entropy.
    """
    result = np.empty((*values.shape[:-1], 2 if several else 1), np.float32)
    for x, plane in enumerate(values):
        result[x, ..., 0] = entropy(plane[..., :-1], has_regions)
        if several:
            information = result[x, ..., 0] - np.asarray(plane[..., -1], np.float32)
            result[x, ..., 1] = np.where(information < _ROUNDING * plane.shape[-1], 0, information)
    return result


def map_names(several: bool) -> tuple[str, ...]:
    """Returns the names of the values that `uncertainty` returns."""
    return (ENTROPY, MUTUAL_INFORMATION) if several else (ENTROPY,)


def _appended(probabilities: np.ndarray, has_regions: bool) -> np.ndarray:
    shape, dtype = probabilities.shape, np.promote_types(probabilities.dtype, np.float32)
    result = np.empty((*shape[:-1], shape[-1] + 1), dtype)
    for x, plane in enumerate(probabilities):
        result[x, ..., :-1] = plane
        result[x, ..., -1] = entropy(plane, has_regions)
    return result


class _WithEntropy:
    """See `with_entropy`."""

    def __init__(self, network: Callable, has_regions: bool) -> None:
        self._network, self._has_regions = network, has_regions

    def __call__(self, image: np.ndarray) -> np.ndarray:
        return _appended(self._network(image), self._has_regions)


class _SlicesWithEntropy(_WithEntropy):
    """Does the same for a network whose processes each compute a slice."""

    def slices(self, sizes: Sequence[int]) -> "_Slices":
        return _Slices(self._network.slices(sizes), self._has_regions)  # type: ignore[attr-defined]


class _Slices:
    """The slices of a network with the entropy; see `training.slices.ImageSlices`.

    A process that computes only some classes receives the other classes of its voxels.
    """

    def __init__(self, slices: Any, has_regions: bool) -> None:
        self._slices, self._has_regions = slices, has_regions
        self.group, self.inputs = slices.group, slices.inputs
        classes = max(region[-1].stop for region in slices.outputs)
        self._complete = [(*region[:-1], slice(0, classes)) for region in slices.outputs]
        self.outputs = [(*region[:-1], slice(0, classes + 1)) for region in slices.outputs]

    def predict(self, image: np.ndarray) -> np.ndarray:
        probabilities = self._slices.predict(image)
        if self._complete != [tuple(region) for region in self._slices.outputs]:
            probabilities = self.group.move(probabilities, self._slices.outputs, self._complete)
        return _appended(probabilities, self._has_regions)
