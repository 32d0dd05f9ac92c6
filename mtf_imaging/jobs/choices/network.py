"""The network and the loss of a plan."""

import math

from mtf_imaging.data.description.description import BACKGROUND, LITS_RULES, Description
from mtf_imaging.data.fingerprint import Fingerprint
from mtf_imaging.data.sampling.grid import Grid
from mtf_imaging.jobs.choices.choice import Choice
from mtf_imaging.jobs.choices.spacing import voxels_along

FILTERS = (32, 16)  # the first that fits
_COARSEST_VOXELS = 4
_MOST_LEVELS = 5
_LARGEST_WEIGHT = 16.0
MOST = 8  # volumes in a batch
_BATCHES = (MOST, 4, 2, 1)
_SHARE_OF_CASES = 20
NNUNET = "Isensee et al. 2021"


def choose_depth(grid: Grid) -> Choice:
    """Chooses the number of levels.

    >>> choose_depth((192, 192, 96)).value, choose_depth((256, 256, 16)).value
    (5, 3)
    """
    shortest, depth = min(voxels_along(grid), default=1), 1
    while depth < _MOST_LEVELS and math.ceil(shortest / 2**depth) >= _COARSEST_VOXELS:
        depth += 1
    coarsest = math.ceil(shortest / 2 ** (depth - 1))
    if depth == _MOST_LEVELS:
        why = f"the most that a plan uses, because each level doubles the filters; the coarsest level has {coarsest} "
    else:
        why = f"one more level would have fewer than {_COARSEST_VOXELS} voxels, and the coarsest level has {coarsest} "
    return Choice(depth, f"{why}voxels along the shortest axis")


def choose_filters(filters: int) -> Choice:
    """Returns the reason for a number of filters."""
    if filters == FILTERS[0]:
        return Choice(filters, f"as in Hou et al. 2019 and {NNUNET}")
    return Choice(
        filters,
        f"instead of {FILTERS[0]}, which do not fit at this spacing; fewer filters lose less than larger voxels",
    )


def choose_norm() -> Choice:
    """Chooses the normalization, for small batches."""
    return Choice("instance", f"a batch of few volumes is too small for statistics of the batch ({NNUNET})")


def choose_dropout() -> Choice:
    """Chooses the dropout rate."""
    return Choice(0.0, f"augmentation regularizes instead ({NNUNET})")


def batch_sizes(num_cases: int) -> list[int]:
    """Returns the batch sizes that a plan tries, largest first.

    A batch has at most 5% of the cases, as in nnU-Net, but up to 2.

    >>> batch_sizes(12), batch_sizes(131), batch_sizes(1000)
    ([2, 1], [4, 2, 1], [8, 4, 2, 1])
    """
    most = max(2, num_cases // _SHARE_OF_CASES)
    return [size for size in _BATCHES if size <= min(most, num_cases)]


def choose_loss(fingerprint: Fingerprint) -> dict[str, Choice]:
    """Chooses the loss, {keyword argument of the task: choice}."""
    description = fingerprint.description
    if description.rules == LITS_RULES:
        return {
            "class_weights": Choice((1.0, 8.0, 16.0), "background, liver and lesion, as in Hou et al. 2019"),
            "dice_weight": Choice(0.2, "as in Hou et al. 2019"),
        }
    return {
        "class_weights": _class_weights(fingerprint, description),
        "dice_weight": Choice(0.5, f"cross entropy and Dice count the same, as in {NNUNET}"),
    }


def _class_weights(fingerprint: Fingerprint, description: Description) -> Choice:
    if description.has_regions:
        return Choice(None, "a weight of a region would not change the balance of its inside and outside; Dice does")
    background = fingerprint.frequency(BACKGROUND)
    weights, rare = [1.0], []
    for name, label in description.labels.items():
        frequency = fingerprint.frequency(label)
        weight = math.sqrt(background / frequency) if frequency else 1.0
        weights.append(round(min(max(weight, 1.0), _LARGEST_WEIGHT), 1))
        if not frequency:
            rare.append(name)
    missing = f"; no case has {', '.join(rare)}, which keeps the weight 1" if rare else ""
    names = ", ".join(["background", *description.labels])
    return Choice(
        tuple(weights),
        f"{names}: the square root of the inverse frequency, from 1 to {_LARGEST_WEIGHT:g}, because the Dice loss "
        f"already balances the labels in part{missing}",
    )
