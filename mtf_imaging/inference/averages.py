"""Means over several runs of a network: over the networks of an ensemble, and over flips of the image."""

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mtf_imaging.engine.layout.regions import Region, mirrored
from mtf_imaging.errors import ConfigError
from mtf_imaging.inference.network import Network, Slices, of_each


def mean_of(runs: Sequence[Callable[[], Any]]) -> Any:
    """Calls functions one after the other and returns the mean of their results, arrays or dicts of arrays.

    The mean needs memory for one sum, in float32 or a wider type, in addition to one result.

    >>> mean_of([lambda: np.ones(2), lambda: np.full(2, 3.0)])
    array([2., 2.])
    """
    total = None
    for run in runs:
        result = run()
        total = of_each(_new_sum, result) if total is None else of_each(operator.iadd, total, result)
        del result  # before the next run allocates its own
    if total is None:
        raise ValueError("runs is empty")
    return of_each(lambda array: operator.itruediv(array, len(runs)), total)


def _new_sum(array: np.ndarray) -> np.ndarray:
    check_numbers(array.dtype)
    return np.array(array, np.promote_types(array.dtype, np.float32))


def check_numbers(dtype: npt.DTypeLike) -> None:
    """Raises ConfigError if predictions have a dtype of which a mean has no meaning."""
    if np.dtype(dtype).kind in "biu":
        raise ConfigError(
            f"ensemble: a prediction has the dtype {np.dtype(dtype)}, and integers, such as the classes of objects, "
            "cannot be averaged. Fix: give the folder of one run as model_dir, without ensemble.",
            ["ensemble", "model_dir"],
        )


def ensemble(networks: Sequence[Network]) -> Network:
    """Returns a network that averages the probabilities of several networks, for instance of all folds.

    The networks run one after the other. The average needs memory for one sum, in float32 or a wider type, in addition
    to the result of one network.

    Args:
      networks: one or more networks with the same slices. A single network is returned unchanged.
    """
    if len(networks) == 1:
        return networks[0]

    def of_sizes(sizes: tuple[int, ...]) -> Slices:
        every = [network.of_sizes(sizes) for network in networks]

        def predict(images: Any) -> Any:
            return mean_of([functools.partial(own.predict, images) for own in every])

        return every[0].replace(predict=predict)

    return Network(of_sizes)


def flipped(network: Network, axes: Sequence[int]) -> Network:
    """Returns a network that averages its probabilities over all combinations of image flips.

    `y = mean over subsets S of axes of flip_S(network(flip_S(image)))`, as in nnU-Net (Isensee et al. 2021). The
    network runs `2^len(axes)` times. The average needs memory for one sum, in float32 or a wider type, in addition to
    the result of one run.

    Args:
      network: a network whose prediction has the sizes of the image.
      axes: the spatial axes to flip; () returns the network itself.
    """
    subsets = [subset for number in range(len(axes) + 1) for subset in itertools.combinations(axes, number)]

    def change(own: Slices, sizes: tuple[int, ...]) -> Slices:
        def predict(images: np.ndarray) -> np.ndarray:
            return mean_of([functools.partial(_predict_flipped, own, sizes, subset, images) for subset in subsets])

        return own.replace(predict=predict)

    return network.map(change) if axes else network


def of_mirrored(network: Network, axes: Sequence[int]) -> Network:
    """Returns a network whose images are mirror images of those of another network, as are its predictions.

    Args:
      network: a network whose prediction has the sizes of the image.
      axes: the spatial axes that increase in the opposite direction; () returns the network itself.
    """

    def change(own: Slices, sizes: tuple[int, ...]) -> Slices:
        return own.replace(predict=functools.partial(_predict_flipped, own, sizes, tuple(axes)))

    return network.map(change) if axes else network


def _predict_flipped(own: Slices, sizes: tuple[int, ...], axes: tuple[int, ...], images: np.ndarray) -> Any:
    """Returns the predictions for flipped images in the slice of this process.

    A slice of a flipped image is a mirrored slice of the image, which another process holds.
    """
    if not axes:
        return own.predict(images)
    of_batch = tuple(axis + 1 for axis in axes)

    def mirror(regions: Sequence[Region]) -> list[Region]:
        return [(*mirrored(region[:-1], sizes, axes), region[-1]) for region in regions]

    moved = own.move(images, own.inputs, mirror(own.inputs))
    predictions = np.flip(own.predict(np.flip(moved, of_batch)), of_batch)
    return own.move(predictions, mirror(own.outputs), own.outputs)
