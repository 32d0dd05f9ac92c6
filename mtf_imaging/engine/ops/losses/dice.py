"""Losses based on soft Dice, the overlap of probabilities with labels."""

from mtf_imaging.engine.compat import mtf
from mtf_imaging.engine.ops.losses.labels import expect_labels
from mtf_imaging.engine.ops.over_batch import over_batch
from mtf_imaging.engine.ops.precision import widen
from mtf_imaging.engine.ops.weighing import weigh
from mtf_imaging.errors import ConfigError

DICE_OVER = ("case", "batch", "both")


def dice_loss(
    probabilities: mtf.Tensor,
    labels: mtf.Tensor,
    batch_dim: mtf.Dimension,
    epsilon: float = 0.1,
    over: str = "both",
    mask: mtf.Tensor | None = None,
) -> mtf.Tensor:
    """Computes the Dice loss of one class: 1 minus its soft Dice.

    `Dice = (2 sum(p t) + epsilon) / (sum(p) + sum(t) + epsilon)`

    A class that is neither labeled nor predicted has a Dice of 1. Every dimension may be split.

    Hou et al. 2019 train with `over="both"`. In nnU-Net, `over="batch"` is called batch Dice (Isensee et al. 2021).

    Args:
      probabilities: Tensor[batch, x, y, z], the probability of the class.
      labels: Tensor[batch, x, y, z], 1 for the voxels of the class and 0 for all others.
      batch_dim: the dimension `batch`.
      epsilon: a number that is added to the numerator and the denominator.
      over: the cases that a sum covers. "case" computes a loss for each case and returns their mean, "batch" sums over
        all cases of the batch, and "both" returns the mean of these two losses.
      mask: Tensor[batch, x, y, z], 1 for the voxels that count and 0 for all others, which may be NaN. None counts all
        voxels.

    Returns:
      A scalar Tensor, float32 or larger.

    Raises:
      ConfigError: `over` is not one of these.
    """
    if over not in DICE_OVER:
        raise ConfigError(f"dice_loss: over = {over!r} is not known. Fix: choose one of {', '.join(DICE_OVER)}.")
    probabilities = widen(probabilities)
    labels = mtf.cast(labels, probabilities.dtype)
    if mask is not None:
        probabilities, labels = weigh(probabilities, mask), weigh(labels, mask)
    cases = mtf.Shape([batch_dim])
    overlap = mtf.reduce_sum(probabilities * labels, output_shape=cases)
    total = mtf.reduce_sum(probabilities, output_shape=cases) + mtf.reduce_sum(labels, output_shape=cases)
    terms = []
    if over in ("case", "both"):
        terms.append(mtf.reduce_mean((2 * overlap + epsilon) / (total + epsilon)))
    if over in ("batch", "both"):
        overlap, total = over_batch(mtf.reduce_sum(overlap)), over_batch(mtf.reduce_sum(total))
        terms.append((2 * overlap + epsilon) / (total + epsilon))
    return 1 - mtf.add_n(terms) / len(terms)


def adaptive_dice_loss(
    probabilities: mtf.Tensor,
    labels: mtf.Tensor,
    dim: mtf.Dimension,
    epsilon: float = 1e-7,
    mask: mtf.Tensor | None = None,
) -> mtf.Tensor:
    """Computes the adaptive Dice loss, in which the classes with the lowest Dice have the largest gradients.

    `loss = 1 - mean over classes of Dice exp(1 - Dice)`

    `Dice = (2 sum(p t) + epsilon) / (sum(p) + sum(t) + epsilon)`

    The sums cover all cases of the batch. This is the "adaptive Dice" of the 3D U-Net in Google's Cloud TPU reference
    models.

    Args:
      probabilities: Tensor[batch..., x, y, z, classes]
      labels: int32 Tensor[batch..., x, y, z]
      dim: the dimension `classes`.
      epsilon: a number that is added to the numerator and the denominator.
      mask: Tensor[batch..., x, y, z], 1 for the voxels that count and 0 for all others, which may be NaN. None counts
        all voxels.

    Returns:
      A scalar Tensor, float32 or larger.
    """
    if mask is None:  # the labels outside of a mask do not count
        expect_labels(labels, range(dim.size))
    classes = mtf.Shape([dim])
    probabilities = widen(probabilities)
    targets = mtf.one_hot(labels, dim, dtype=probabilities.dtype)
    if mask is not None:
        probabilities, targets = weigh(probabilities, mask), weigh(targets, mask)
    overlap = over_batch(mtf.reduce_sum(probabilities * targets, output_shape=classes))
    total = over_batch(mtf.reduce_sum(probabilities + targets, output_shape=classes))
    dice = (2 * overlap + epsilon) / (total + epsilon)
    return 1 - mtf.reduce_mean(dice * mtf.exp(1 - dice))
