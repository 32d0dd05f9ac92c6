"""Test-time augmentation with flips, as in nnU-Net (Isensee et al. 2021)."""

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.errors import ConfigError
from mtf_imaging.evaluation.averaging.averages import AveragedNetwork, AveragedSlices, mean_of
from mtf_imaging.layout.regions import Region, mirrored


def check_flips(flips: Sequence[str], where: str = "flips", axis_names: Sequence[str] = AXIS_NAMES) -> tuple[str, ...]:
    """Checks the axes of `flips` and returns them as a tuple.

    Args:
      flips: names of axes.
      where: the name of the parameter, for the message.
      axis_names: the names of all axes that can be flipped.

    Raises:
      ConfigError: a name is not an axis, or is repeated.
    """
    axes = tuple(flips) if isinstance(flips, tuple | list | str) else (flips,)
    wrong = [axis for axis in axes if axis not in axis_names]
    if wrong or len(set(axes)) < len(axes):
        what = f"{wrong[0]!r} is not an axis" if wrong else "an axis is repeated"
        raise ConfigError(
            f"{where} = {flips!r}: {what}. "
            f"Fix: list each of {', '.join(axis_names)} at most once, as in {tuple(axis_names[:2])!r}.",
            settings=["flips"],
        )
    return axes


def over_flips(
    predict: Callable[[np.ndarray], np.ndarray], flips: Sequence[str], axis_names: Sequence[str] = AXIS_NAMES
) -> Callable:
    """Returns a network that averages its probabilities over all combinations of image flips.

    `y = mean over subsets S of flips of flip_S(predict(flip_S(image)))`; the network runs `2^len(flips)` times. The
    average needs memory for one sum, in float32 or a wider type, in addition to the result of one run.

    Args:
      predict: the network, image `[x, y, z, channels]` -> probabilities `[x, y, z, classes]`.
      flips: names of axes, such as ("x", "y", "z"); () returns `predict` itself.
      axis_names: the names of the image's spatial axes, in order.

    Returns:
      A function with the same signature as `predict`. If `predict` has a `slices` method, it has one, too.
    """
    axes = [axis_names.index(name) for name in flips]
    if not axes:
        return predict
    subsets = [subset for number in range(len(axes) + 1) for subset in itertools.combinations(axes, number)]

    def average(image: np.ndarray) -> np.ndarray:
        def run(subset: tuple[int, ...]) -> np.ndarray:
            return np.flip(predict(np.flip(image, subset)), subset)

        return mean_of([functools.partial(run, subset) for subset in subsets])

    if not hasattr(predict, "slices"):
        return average

    def slices(sizes: Sequence[int]) -> AveragedSlices:
        own = predict.slices(sizes)
        return AveragedSlices(own, [functools.partial(_predict_flipped, own, sizes, subset) for subset in subsets])

    return AveragedNetwork(average, slices)


def _predict_flipped(slices, sizes: Sequence[int], axes: tuple[int, ...], image: np.ndarray) -> np.ndarray:
    """Returns the prediction for the flipped image in the slice of this process.

    A slice of the flipped image is a mirrored slice of the image, which another process holds.
    """

    def mirror(regions: Sequence[Region]) -> list[Region]:
        return [(*mirrored(region[:-1], sizes, axes), region[-1]) for region in regions]

    if not axes:
        return slices.predict(image)
    image = slices.group.move(image, slices.inputs, mirror(slices.inputs))
    result = np.flip(slices.predict(np.flip(image, axes)), axes)
    return slices.group.move(result, mirror(slices.outputs), slices.outputs)
