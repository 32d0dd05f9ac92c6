"""The values that labels may have, which a program checks in its inputs."""

from collections.abc import Iterable

from mtf_imaging.engine.compat import mtf


def expect_labels(labels: mtf.Tensor, values: Iterable[int]) -> None:
    """Declares the values that an input of labels may have. Calls of the program refuse all other values.

    `sparse_softmax_cross_entropy` and `adaptive_dice_loss` declare their classes themselves. A task with an ignore
    label calls this function on its input, because it passes other labels to the loss. Values that are declared several
    times must be in all declarations.

    Args:
      labels: Tensor[...] of integers. If it is not an input of the program, the call has no effect.
      values: the values, for instance `[*range(classes), ignore_label]`.
    """
    known = labels.mesh.label_values
    known[labels] = known.get(labels, frozenset(values)) & frozenset(values)
