"""The initial biases of the class layer, computed from the class frequencies.

With biases of zero, a network first predicts every class with the same probability, and spends its first steps on
learning the class frequencies. Meanwhile, the gradients of a class with one voxel in a thousand mostly show that the
class is rare, and some runs never find it. For the same reason, Lin et al. 2017, "Focal Loss for Dense Object
Detection", section 4.1, start the rare class of their detector with its prior probability. docs/evidence/learning.md
compares both starts.
"""

import math

_LEAST = 1e-6  # for a class without voxels, whose logarithm would be infinite


def softmax_biases(frequencies):
    """Returns the biases with which a softmax predicts the class frequencies, `log f` with a mean of zero.

    >>> [round(bias, 3) for bias in softmax_biases((0.8, 0.2))]
    [0.693, -0.693]
    """
    logs = [math.log(max(frequency, _LEAST)) for frequency in frequencies]
    mean = sum(logs) / len(logs)
    return tuple(log - mean for log in logs)


def sigmoid_biases(frequencies):
    """Returns the biases with which a sigmoid predicts the frequency of each mask, `log(f / (1 - f))`.

    >>> [round(bias, 3) for bias in sigmoid_biases((0.5, 0.1))]
    [0.0, -2.197]
    """
    clipped = [min(max(frequency, _LEAST), 1 - _LEAST) for frequency in frequencies]
    return tuple(math.log(frequency / (1 - frequency)) for frequency in clipped)
