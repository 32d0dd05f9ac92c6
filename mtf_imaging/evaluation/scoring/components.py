"""The connected components of a predicted and a reference mask, with the overlaps between components."""

import functools
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from mtf_imaging.evaluation.scoring.surface import bounding_box


@dataclass(frozen=True)
class Components:
    """Connected components of two masks, numbered from 1 in the order of their first voxels.

    Attributes:
      prediction: int32 `[x, y, z]`, the component number of each voxel in the prediction, 0 for background.
      reference: int32 `[x, y, z]`, the component number of each voxel in the reference, 0 for background.
      shared: int64 `[predicted components, reference components]`, the number of voxels that each pair shares;
        component n has row or column n - 1.
    """

    prediction: np.ndarray
    reference: np.ndarray
    shared: np.ndarray

    @functools.cached_property
    def predicted_sizes(self) -> np.ndarray:
        """The number of voxels of the background and of each component, int64 `[predicted components + 1]`."""
        return np.bincount(self.prediction.ravel(), minlength=self.num_predicted + 1)

    @functools.cached_property
    def reference_sizes(self) -> np.ndarray:
        """The number of voxels of the background and of each component, int64 `[reference components + 1]`."""
        return np.bincount(self.reference.ravel(), minlength=self.num_reference + 1)

    @property
    def num_predicted(self) -> int:
        return self.shared.shape[0]

    @property
    def num_reference(self) -> int:
        return self.shared.shape[1]


def find_components(prediction: np.ndarray, reference: np.ndarray) -> Components:
    """Finds the components of two masks, connected through faces.

    Args:
      prediction: bool `[x, y, z]`.
      reference: bool `[x, y, z]`.

    Returns:
      The components. Their arrays cover the bounding box of both masks only.
    """
    box = bounding_box(prediction | reference) or (slice(0, 1),) * prediction.ndim  # one voxel of background
    (predicted, num_predicted), (real, num_real) = (ndimage.label(mask[box]) for mask in (prediction, reference))
    both = (predicted > 0) & (real > 0)
    pairs = (predicted[both].astype(np.int64) - 1) * num_real + (real[both] - 1)
    shared = np.bincount(pairs, minlength=num_predicted * num_real).reshape(num_predicted, num_real)
    return Components(predicted, real, shared)
