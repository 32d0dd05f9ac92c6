"""Losses from soft Dice, the overlap of probabilities with labels."""

from mtf_imaging.compat import mtf
from mtf_imaging.errors import ConfigError
from mtf_imaging.ops.over_batch import over_batch

DICE_OVER = ("case", "batch", "both")


def dice_loss(
    probabilities: mtf.Tensor, labels: mtf.Tensor, batch_dim: mtf.Dimension, epsilon: float = 0.1, over: str = "both"
) -> mtf.Tensor:
    """1 - soft Dice of one class: of each case, of all cases of the batch together, or the mean of these two.

    `Dice = (2 sum(p t) + epsilon) / (sum(p) + sum(t) + epsilon)`, so that an empty class that nothing predicts counts
    1. The mean of the two is the loss of Hou et al. 2019; the sums of the batch are what nnU-Net calls batch Dice
    (Isensee et al. 2021).

    Args:
      probabilities: Tensor[batch, x, y, z], of the class.
      labels: Tensor[batch, x, y, z], 1 where the class is, of the same dtype.
      batch_dim: the dimension of cases.
      epsilon: see the formula.
      over: what the sums are over: "case", the loss being the mean of the cases'; "batch", all cases together; or
        "both", the mean of the two losses.

    Returns:
      A scalar Tensor.

    Raises:
      ConfigError: `over` is none of these.
    """
    if over not in DICE_OVER:
        raise ConfigError(f"dice_loss: over = {over!r} is not known. Fix: choose one of {', '.join(DICE_OVER)}.")
    cases = mtf.Shape([batch_dim])
    overlap = mtf.reduce_sum(probabilities * labels, output_shape=cases)
    total = mtf.reduce_sum(probabilities, output_shape=cases) + mtf.reduce_sum(labels, output_shape=cases)
    found = []
    if over in ("case", "both"):
        found.append(mtf.reduce_mean((2 * overlap + epsilon) / (total + epsilon)))
    if over in ("batch", "both"):
        overlap, total = over_batch(mtf.reduce_sum(overlap)), over_batch(mtf.reduce_sum(total))
        found.append((2 * overlap + epsilon) / (total + epsilon))
    return 1 - mtf.add_n(found) / len(found)


def adaptive_dice_loss(
    probabilities: mtf.Tensor, labels: mtf.Tensor, dim: mtf.Dimension, epsilon: float = 1e-7
) -> mtf.Tensor:
    """`1 - mean over classes of Dice exp(1 - Dice)`: a class weighs the more, the worse it is found.

    That is the "adaptive Dice" of the 3D U-Net among Google's Cloud TPU reference models. The Dice of a class is that
    of all cases of the batch together, `(2 sum(p t) + epsilon) / (sum(p) + sum(t) + epsilon)`.

    Args:
      probabilities: Tensor[batch..., x, y, z, classes]
      labels: int32 Tensor[batch..., x, y, z]
      dim: the dimension `classes`.
      epsilon: see the formula.

    Returns:
      A scalar Tensor.
    """
    classes = mtf.Shape([dim])
    targets = mtf.one_hot(labels, dim, dtype=probabilities.dtype)
    overlap = over_batch(mtf.reduce_sum(probabilities * targets, output_shape=classes))
    total = over_batch(mtf.reduce_sum(probabilities + targets, output_shape=classes))
    dice = (2 * overlap + epsilon) / (total + epsilon)
    return 1 - mtf.reduce_mean(dice * mtf.exp(1 - dice))
