"""The uncertainty of a prediction, from the probabilities of several networks or flips.

The members, whose probabilities are averaged, are the networks of an ensemble and the flips of an image. For the mean p
of their probabilities p_m, in nats:

    entropy             H(p) = -sum over classes of p * log(p)         how uncertain the prediction is
    mutual information  H(p) - mean over members of H(p_m)             how much the members disagree

The mutual information is 0 where all members agree, even if each of them is uncertain. Sources: Kendall and Gal (2017),
"What uncertainties do we need in Bayesian deep learning for computer vision?", and Lakshminarayanan et al. (2017),
"Simple and scalable predictive uncertainty estimation using deep ensembles".
"""

from collections.abc import Callable

import numpy as np
import scipy  # loads its modules when they are used

from mtf_imaging.inference.network import Network, Slices, whole_shape

ENTROPY, MUTUAL_INFORMATION = "entropy", "mutual_information"
_Probabilities = Callable[[np.ndarray], np.ndarray]
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
    terms = scipy.special.entr(np.clip(values, 0, 1))
    if has_regions:
        terms = terms + scipy.special.entr(np.clip(1 - values, 0, 1))
    return terms.sum(axis=-1, dtype=np.float32)


def with_entropy(network: Network, has_regions: bool = False, probabilities: _Probabilities = np.asarray) -> Network:
    """Returns a network that appends the entropy of its probabilities to its results.

    If such networks are averaged over members, the last value is the mean entropy of the members. A process that
    computes only some classes receives the other classes of its voxels.

    Args:
      network: a network with the results `[x, y, z, classes]`; they become `[x, y, z, classes + 1]`.
      has_regions: see `entropy`.
      probabilities: maps results to probabilities, for instance logits.
    """

    def change(own: Slices, sizes: tuple[int, ...]) -> Slices:
        classes = whole_shape(own.outputs)[-1]
        complete = [(*region[:-1], slice(0, classes)) for region in own.outputs]

        def predict(images: np.ndarray) -> np.ndarray:
            values = own.predict(images)
            if complete != [tuple(region) for region in own.outputs]:
                values = own.move(values, own.outputs, complete)
            return _appended(values, has_regions, probabilities)

        return own.replace(outputs=[(*region[:-1], slice(0, classes + 1)) for region in own.outputs], predict=predict)

    return network.map(change)


def uncertainty(
    values: np.ndarray, has_regions: bool = False, several: bool = True, probabilities: _Probabilities = np.asarray
) -> np.ndarray:
    """Returns the entropy and the mutual information of each voxel.

    Args:
      values: `[x, y, z, classes + 1]`: the mean results, then the mean entropy of the members.
      has_regions: see `entropy`.
      several: whether there are several members; otherwise, there is no mutual information.
      probabilities: see `with_entropy`.

    Returns:
      float32 `[x, y, z, 2]`, or `[x, y, z, 1]` with only the entropy.
    """
    result = np.empty((*values.shape[:-1], 2 if several else 1), np.float32)
    for x, plane in enumerate(values):
        result[x, ..., 0] = entropy(probabilities(plane[..., :-1]), has_regions)
        if several:
            information = result[x, ..., 0] - np.asarray(plane[..., -1], np.float32)
            result[x, ..., 1] = np.where(information < _ROUNDING * plane.shape[-1], 0, information)
    return result


def map_names(several: bool) -> tuple[str, ...]:
    """Returns the names of the values that `uncertainty` returns."""
    return (ENTROPY, MUTUAL_INFORMATION) if several else (ENTROPY,)


def _appended(values: np.ndarray, has_regions: bool, probabilities: _Probabilities) -> np.ndarray:
    """Returns the results for images with the entropy as another class, one plane at a time."""
    shape, dtype = values.shape, np.promote_types(values.dtype, np.float32)
    result = np.empty((*shape[:-1], shape[-1] + 1), dtype)
    for at in np.ndindex(shape[:2]):  # the image, and its first axis
        result[at][..., :-1] = values[at]
        result[at][..., -1] = entropy(probabilities(values[at]), has_regions)
    return result
