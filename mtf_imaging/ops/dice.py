"""Losses from soft Dice, the overlap of probabilities with labels."""

from mtf_imaging.compat import mtf
from mtf_imaging.ops.over_batch import over_batch


def dice_loss(probabilities, labels, batch_dim, epsilon=0.1):
    """1 - soft Dice of one class: the mean of that of each case and that of all cases of the batch together.

    `Dice = (2 sum(p t) + epsilon) / (sum(p) + sum(t) + epsilon)`, so that an empty class that nothing predicts counts
    1.

    Args:
      probabilities: Tensor[batch, x, y, z], of the class.
      labels: Tensor[batch, x, y, z], 1 where the class is, of the same dtype.
      batch_dim: the dimension of cases.
      epsilon: see the formula.

    Returns:
      A scalar Tensor.
    """
    cases = mtf.Shape([batch_dim])
    overlap = mtf.reduce_sum(probabilities * labels, output_shape=cases)
    total = mtf.reduce_sum(probabilities, output_shape=cases) + mtf.reduce_sum(labels, output_shape=cases)
    per_case = mtf.reduce_mean((2 * overlap + epsilon) / (total + epsilon))
    overlap, total = over_batch(mtf.reduce_sum(overlap)), over_batch(mtf.reduce_sum(total))
    together = (2 * overlap + epsilon) / (total + epsilon)
    return 1 - (per_case + together) / 2


def adaptive_dice_loss(probabilities, labels, dim, epsilon=1e-7):
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
