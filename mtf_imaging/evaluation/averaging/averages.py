"""Means over several runs of a network, and networks that compute them."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from mtf_imaging.errors import ConfigError


def mean_of(runs: Sequence[Callable[[], np.ndarray]]) -> np.ndarray:
    """Calls functions one after the other and returns the mean of their results.

    The mean needs memory for one sum, in float32 or a wider type, in addition to one result.

    >>> mean_of([lambda: np.ones(2), lambda: np.full(2, 3.0)])
    array([2., 2.])
    """
    total = None
    for run in runs:
        result = run()
        if isinstance(result, Mapping):
            raise several_parts(result)
        if total is None:
            total = np.array(result, np.promote_types(result.dtype, np.float32))
        else:
            total += result
        del result  # before the next run allocates its own
    if total is None:
        raise ValueError("runs is empty")
    total /= len(runs)
    return total


def several_parts(parts: Iterable[str]) -> ConfigError:
    """Returns the error for predictions with several outputs, which cannot be averaged."""
    return ConfigError(
        f"ensemble: predictions of several parts ({', '.join(parts)}) cannot be averaged. Fix: give the folder "
        "of one run as model_dir, without ensemble.",
        ["ensemble", "model_dir"],
    )


class AveragedSlices:
    """The slices of one program that runs several times, with the mean of its predictions.

    Args:
      slices: the program's `ImageSlices`.
      runs: functions with the signature of `slices.predict`.
    """

    def __init__(self, slices, runs: Sequence[Callable[[np.ndarray], np.ndarray]]) -> None:
        self._runs = runs
        self.group, self.inputs, self.outputs = slices.group, slices.inputs, slices.outputs

    def predict(self, image: np.ndarray) -> np.ndarray:
        return mean_of([lambda run=run: run(image) for run in self._runs])


class AveragedNetwork:
    """A network that returns the mean of several runs.

    Args:
      average: a function of a whole image.
      slices: a function of the image sizes; see `training.slices.ImageNetwork`.
    """

    def __init__(self, average: Callable, slices: Callable) -> None:
        self._average, self.slices = average, slices

    def __call__(self, image: np.ndarray) -> np.ndarray:
        return self._average(image)
