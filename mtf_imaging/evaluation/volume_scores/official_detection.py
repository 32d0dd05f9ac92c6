"""Lesion detection as in the challenge's original program, step by step.

The program is github.com/PatrickChrist/lits-challenge-scoring, commit 090307d. It merges and renumbers components in
place, and some steps read numbers that earlier steps have replaced. The scores of the challenge include these effects,
so this module reproduces them; the module `lesions` counts without these effects. All steps work on tables of voxel
counts, so the cost does not grow with the volume.
"""

from dataclasses import dataclass

import numpy as np

from mtf_imaging.evaluation.volume_scores.components import Components

_MASK_SIZE = 256  # the program stores the numbers of detected lesions in uint8


@dataclass(frozen=True)
class OfficialDetection:
    """Detected lesions at one threshold.

    Attributes:
      count: the number of detected lesions. An undetected lesion subtracts the number of components from which it was
        merged, so the count can become negative.
      prediction: int64 `[predicted components + 1]`, the lesion number of each component; 0 if not detected.
      reference: int64 `[reference components + 1]`, the lesion number of each component after merging.
    """

    count: int
    prediction: np.ndarray
    reference: np.ndarray


def detect_lesions(components: Components, min_iou: float) -> OfficialDetection:
    """Pairs predicted lesions with reference lesions and counts the detected ones.

    Args:
      components: lesions of prediction and reference, numbered along the axes that the files store.
      min_iou: the intersection over union that a detected lesion must exceed.
    """
    reference = np.arange(components.reference.count + 1)
    prediction = np.zeros(components.prediction.count + 1, np.int64)
    predicted = np.flatnonzero(components.shared.any(axis=1)) + 1
    shared = components.shared[predicted - 1]

    shared, merged_from = _merge_reference(shared, reference)
    shared = _keep_largest(shared)
    numbers = np.unique(reference)[1:]  # the lesion number of each column
    shared, predicted = _merge_prediction(shared, predicted, numbers, prediction)

    count = len(predicted)
    for row, column in zip(*shared.nonzero()):
        # The program compares the new numbers of predicted lesions with an old one.
        union = _union(components, prediction == predicted[row], reference == numbers[column])
        if shared[row, column] / union <= min_iou:
            prediction[prediction == numbers[column]] = 0
            count -= merged_from[numbers[column]]
    return OfficialDetection(count, prediction, reference)


def _merge_reference(shared: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, dict[int, int]]:
    """Merges the reference lesions that have their largest overlap with the same predicted lesion.

    Args:
      shared: `[predicted lesions, reference lesions]`, shared voxels.
      reference: the lesion number of each reference component. Merged components get their lowest number in place.

    Returns:
      `shared` with one column per lesion after merging, and the number of merged components by lesion number.
    """
    numbers = reference[1:].copy()  # the lesion number of each column
    merged_from = dict.fromkeys(numbers.tolist(), 1)
    for row in range(len(shared)):
        columns = shared[row].nonzero()[0]
        columns = columns[shared[:, columns].argmax(axis=0) == row]
        merged_from |= dict.fromkeys(numbers[columns].tolist(), len(columns))
        if len(columns) > 1:
            reference[np.isin(reference, numbers[columns])] = numbers[columns[0]]
            shared = _add_up(shared, columns, axis=1)
            numbers = np.delete(numbers, columns[1:])
    return shared, merged_from


def _keep_largest(shared: np.ndarray) -> np.ndarray:
    """Assigns each predicted lesion to the reference lesion with the largest overlap; the first wins a tie."""
    rows = np.arange(len(shared))
    kept = np.zeros_like(shared)
    if shared.size:
        best = shared.argmax(axis=1)
        kept[rows, best] = shared[rows, best]
    return kept


def _merge_prediction(
    shared: np.ndarray, predicted: np.ndarray, numbers: np.ndarray, prediction: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Merges the predicted lesions assigned to one reference lesion and numbers them like the reference lesion.

    Args:
      shared: `[predicted lesions, reference lesions]`, with one nonzero entry per row.
      predicted: the component number of each row.
      numbers: the lesion number of each column.
      prediction: the lesion number of each predicted component, which this function sets.

    Returns:
      `shared` and `predicted` after merging.
    """
    for column, number in enumerate(numbers):
        rows = shared[:, column].nonzero()[0]
        prediction[predicted[rows]] = number % _MASK_SIZE
        if len(rows) > 1:
            shared = _add_up(shared, rows, axis=0)
            predicted = np.delete(predicted, rows[1:])
    return shared, predicted


def _add_up(shared: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """Replaces rows or columns with their sum, at the position of the first."""
    total = shared.take(indices, axis).sum(axis, keepdims=True)
    rest = np.delete(shared, indices, axis)
    return np.insert(rest, indices[0], total.squeeze(axis), axis)


def _union(components: Components, predicted: np.ndarray, real: np.ndarray) -> int:
    """Counts the voxels in the union of the chosen components.

    Args:
      components: the components of both masks.
      predicted: bool `[predicted components + 1]`, the chosen components of the prediction.
      real: bool `[reference components + 1]`, the chosen components of the reference.
    """
    both = components.shared[np.ix_(predicted[1:], real[1:])].sum()
    return components.prediction.sizes[predicted].sum() + components.reference.sizes[real].sum() - both
