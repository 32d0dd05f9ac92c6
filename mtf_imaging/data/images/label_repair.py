"""Converts stored numbers to labels, and refuses labels that are not in the data set's description."""

import numpy as np

from mtf_imaging.data.description.description import BACKGROUND, LITS_RULES, Description
from mtf_imaging.data.images.stored import Stored
from mtf_imaging.data.images.voxel_values import warn_once
from mtf_imaging.files.reading import Fault

NUM_CLASSES = 3  # 0 background, 1 liver, 2 lesion
_WHOLE = 1e-3  # bound on the rounding error that scaling adds to integers
_HIGHEST = 255  # labels are stored as uint8
_SHOWN = 5  # unknown labels listed in a message


class LabelRepair:
    """Converts stored numbers to labels, uint8; integers stored as floats are accepted, with a warning.

    Args:
      stored: the stored numbers of a segmentation.
      description: the permitted labels.
    """

    dtype = np.dtype(np.uint8)

    def __init__(self, stored: Stored, description: Description) -> None:
        self._stored, self._description = stored, description
        self._is_permitted = np.zeros(256, bool)
        self._is_permitted[list(_names(description))] = True
        self._num_consecutive = int(self._is_permitted.argmin())
        self._low, self._high = np.inf, -np.inf
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
                raise Fault(what, f"store {_listed(self._description)}")
            slab = whole
        low, high = slab.min(), slab.max()
        self._low, self._high = min(self._low, low), max(self._high, high)
        if low >= 0 and high < len(self._is_permitted):
            labels = slab.astype(np.uint8)
            if high < self._num_consecutive or self._is_permitted[labels].all():
                return labels
        self._surplus.update(np.setdiff1d(slab, list(_names(self._description))).tolist())
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
        if own.rules == LITS_RULES:
            what = f"labels range from {self._low:.0f} to {self._high:.0f}, not from 0 to {NUM_CLASSES - 1}"
            return Fault(what, f"map them to {_listed(own)}")
        shown = ", ".join(f"{label:.0f}" for label in surplus[:_SHOWN]) + (", ..." if len(surplus) > _SHOWN else "")
        fix = f"add the labels to dataset.json, or map them to these labels, integers from 0 to {_HIGHEST}"
        if surplus == [_HIGHEST]:
            fix = f"store the voxels of a binary mask as {min(own.labels.values())}, not {_HIGHEST}"
        return Fault(f"has labels that dataset.json lacks: {shown}. The labels of dataset.json are {_listed(own)}", fix)


def _names(description: Description) -> dict[int, str]:
    """Returns the names of all permitted labels, by value."""
    names = {BACKGROUND: "background", **{value: name for name, value in description.labels.items()}}
    return names if description.ignore is None else names | {description.ignore: "ignore"}


def _listed(description: Description) -> str:
    return ", ".join(f"{value} {name}" for value, name in _names(description).items())
