"""Probabilities averaged over flips of an image, the test-time augmentation of nnU-Net (Isensee et al. 2021)."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from mtf_imaging.data.sampling.grid import AXIS_NAMES
from mtf_imaging.errors import ConfigError


def check_flips(flips: Sequence[str], where: str = "flips") -> tuple[str, ...]:
    """The axes of `flips` as a tuple.

    Raises:
      ConfigError: it holds what is no axis, or one twice; `where` names the parameter.
    """
    axes = tuple(flips) if isinstance(flips, tuple | list | str) else (flips,)
    wrong = [axis for axis in axes if axis not in AXIS_NAMES]
    if wrong or len(set(axes)) < len(axes):
        what = f"{wrong[0]!r} is no axis" if wrong else "an axis is there twice"
        raise ConfigError(
            f"{where} = {flips!r}: {what}. Fix: some of {', '.join(AXIS_NAMES)}, as ('x', 'y').", settings=["flips"]
        )
    return axes


def over_flips(predict: Callable[[np.ndarray], np.ndarray], flips: Sequence[str]) -> Callable:
    """A network that averages its probabilities over all combinations of flips of an image, each flipped back.

    `y = mean over subsets S of flips of flip_S(predict(flip_S(image)))`; the network runs `2^len(flips)` times. Held
    beside what one run returns is one sum, in float32 at least.

    Args:
      predict: image `[x, y, z, channels]` -> probabilities `[x, y, z, classes]`.
      flips: names of axes, as ("x", "y", "z"); () for `predict` itself.

    Returns:
      A function as `predict`.
    """
    axes = [AXIS_NAMES.index(name) for name in flips]
    if not axes:
        return predict
    chosen = [of for number in range(len(axes) + 1) for of in itertools.combinations(axes, number)]

    def averaged(image: np.ndarray) -> np.ndarray:
        total = None
        for of in chosen:
            found = np.flip(predict(np.flip(image, of)), of)
            if total is None:
                total = np.array(found, np.promote_types(found.dtype, np.float32))
            else:
                total += found
            del found  # or the next run of the network would have it beside its own
        total /= len(chosen)
        return total

    return averaged
