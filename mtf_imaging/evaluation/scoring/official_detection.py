"""Which lesions the challenge's original program counts as detected, step by step as that program does it.

The program is github.com/PatrickChrist/lits-challenge-scoring, commit 090307d. It merges and renumbers components in
place, and some steps read numbers that earlier ones have replaced. The scores of the challenge include the effects, so
they are reproduced here; `lesions` counts lesions without them. Only tables of voxel counts are needed, so the cost
does not grow with the volume.
"""

from dataclasses import dataclass

import numpy as np

from mtf_imaging.evaluation.scoring.components import Components

_MASK_SIZE = 256  # the program keeps the numbers of detected lesions in uint8


@dataclass(frozen=True)
class OfficialDetection:
    """Detected lesions at one threshold.

    Attributes:
      count: the number of detections; below 0 where an undetected lesion had been merged from several.
      prediction: int64 `[predicted components + 1]`, the lesion number of each component; 0 if not detected.
      reference: int64 `[reference components + 1]`, the lesion number of each component after merging.
    """

    count: int
    prediction: np.ndarray
    reference: np.ndarray


def detect_lesions(components: Components, min_iou: float) -> OfficialDetection:
    """Pairs predicted lesions with those of the reference and counts the detected ones.

    Args:
      components: lesions of prediction and reference, numbered along the axes that the files store.
      min_iou: the intersection over union that a detected lesion exceeds.
    """
    reference = np.arange(components.num_reference + 1)
    prediction = np.zeros(components.num_predicted + 1, np.int64)
    predicted = np.flatnonzero(components.shared.any(axis=1)) + 1
    shared = components.shared[predicted - 1]

    shared, merged_from = _merge_reference(shared, reference)
    shared = _keep_largest(shared)
    numbers = np.unique(reference)[1:]  # of the columns
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
      reference: the number of each reference component; merged ones get the lowest of theirs.

    Returns:
      `shared` with a column for each lesion after merging, and by number of how many components each was merged.
    """
    numbers = reference[1:].copy()  # of the columns
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
    """Assigns each predicted lesion to the reference lesion with the largest overlap, the first of equal ones."""
    rows = np.arange(len(shared))
    kept = np.zeros_like(shared)
    if shared.size:
        best = shared.argmax(axis=1)
        kept[rows, best] = shared[rows, best]
    return kept


def _merge_prediction(
    shared: np.ndarray, predicted: np.ndarray, numbers: np.ndarray, prediction: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Merges the predicted lesions that belong to one reference lesion, and gives them its number.

    Args:
      shared: `[predicted lesions, reference lesions]`, with one nonzero entry a row.
      predicted: the numbers of the rows.
      numbers: the numbers of the columns.
      prediction: the lesion number of each predicted component, written here.

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
    """Replaces rows or columns by their sum, in the place of the first."""
    total = shared.take(indices, axis).sum(axis, keepdims=True)
    rest = np.delete(shared, indices, axis)
    return np.insert(rest, indices[0], total.squeeze(axis), axis)


def _union(components: Components, predicted: np.ndarray, real: np.ndarray) -> int:
    """Voxels of the chosen components, bool `[components + 1]` each, of prediction or reference."""
    both = components.shared[np.ix_(predicted[1:], real[1:])].sum()
    return components.predicted_sizes[predicted].sum() + components.reference_sizes[real].sum() - both
