"""Converts stored numbers to labels, and refuses labels that are not in the data set's description."""

from collections.abc import Mapping

import numpy as np

from mtf_imaging.data.description.description import Description
from mtf_imaging.data.description.file_labels import listed
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.files.reading import Fault

_WHOLE = 1e-3  # bound on the rounding error that scaling adds to integers
_HIGHEST = 255  # in binary masks of pictures
_SHOWN = 5  # unknown labels listed in a message


class LabelRepair:
    """Converts stored numbers to labels, uint8; integers stored as floats are accepted, with a warning.

    Args:
      stored: the stored numbers of a segmentation.
      description: the permitted labels.
      labels: the label of each permitted value; see `labels_of_values`.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, stored: Stored, description: Description, labels: Mapping[int, int]) -> None:
        self._stored, self._description, self._values = stored, description, [*labels]
        self._labels = np.full(max(labels) + 2, -1, np.int16)  # the last value is not permitted
        self._labels[self._values] = [*labels.values()]
        self._num_plain = int((self._labels != np.arange(len(self._labels))).argmax())  # values that are their labels
        self._surplus: set[float] = set()
        self._as_floats = False

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        """Returns the labels of stored numbers; see `Repair`. Labels that `check` will refuse may have any value.

        Raises:
          Fault: a label is not an integer.
        """
        slab = self._stored.scaled(numbers)
        if slab.dtype.kind == "f":
            self._as_floats = True
            finite = np.isfinite(slab).all()
            whole = np.rint(slab)
            if not finite or np.abs(slab - whole).max() > _WHOLE:
                what = f"some labels are {'not integers' if finite else 'NaN or infinite'}"
                raise Fault(what, f"store {listed(self._description)}")
            slab = whole
        low, high = slab.min(), slab.max()
        if low >= 0 and high < self._num_plain:
            return slab.astype(np.uint8)
        if low >= 0 and high < len(self._labels):
            labels = self._labels[slab.astype(np.uint32)]
            if labels.min() >= 0:
                return labels.astype(np.uint8)
        self._surplus.update(np.setdiff1d(slab, self._values).tolist())
        return np.zeros(slab.shape, np.uint8)

    def check(self) -> None:
        """Checks all labels so far.

        Raises:
          Fault: there are labels that are not in the description.
        """
        stored = self._stored
        if self._surplus:
            raise self._fault()
        if self._as_floats:
            what = f"{stored.dtype} with a scale" if stored.is_scaled else str(stored.dtype)
            warn_once(f"{stored.path}: labels are stored as {what}; they are read as integers.")

    def _fault(self) -> Fault:
        """Returns the fault of a mask with labels that are not in the description."""
        surplus, own = sorted(self._surplus), self._description
        shown = ", ".join(f"{label:.0f}" for label in surplus[:_SHOWN]) + (", ..." if len(surplus) > _SHOWN else "")
        fix = "add the labels to dataset.json, or map them to its labels"
        if surplus == [_HIGHEST]:
            fix = f"store the voxels of a binary mask as {min(own.labels.values())}, not {_HIGHEST}"
        return Fault(f"has the label(s) {shown}, but the labels of the data set are {listed(own)}", fix)
