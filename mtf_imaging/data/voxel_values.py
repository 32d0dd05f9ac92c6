"""What the numbers in a file mean: HU and labels, repaired where the right value is known and refused where it is not.

Values are looked at in slabs along the last stored axis: a scan of 1000 slices, 0.5 GB as int16, would take 2 GB as
numbers that can be scaled.
"""

import functools
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtf_imaging.errors import DataError

NUM_CLASSES = 3  # 0 background, 1 liver, 2 lesion
AIR_HU = -1024
_MAX_HU = 32767
_NO_AIR_HU = -200  # above fat: a CT without lower values shows no air around the patient and none within
_LABEL_TOLERANCE = 1e-3  # what scaling leaves of whole numbers
_SLAB_VOXELS = 1 << 24
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredValues:
    """The numbers of a file, as stored.

    Attributes:
      raw: `[i, j, k]`, integers or floats.
      slope, inter: what they mean is `slope * raw + inter`.
      path: the file, for messages.
    """

    raw: np.ndarray
    slope: float
    inter: float
    path: Path

    @property
    def is_scaled(self) -> bool:
        return (self.slope, self.inter) != (1.0, 0.0)

    def slabs(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (planes along k, their values): float64 where they are scaled, else of the stored type."""
        planes = max(1, _SLAB_VOXELS // max(1, self.raw[..., :1].size))
        for start in range(0, self.raw.shape[2], planes):
            at = slice(start, start + planes)
            slab = self.raw[..., at]
            yield at, slab * np.float64(self.slope) + self.inter if self.is_scaled else slab


def hounsfield(stored: StoredValues) -> np.ndarray:
    """HU of a CT, int16 `[i, j, k]`, at least -1024.

    NaN becomes air, what is out of range the nearest bound, and negative HU that were stored as unsigned 16-bit numbers
    are read as signed; each with a warning.

    Raises:
      DataError: no voxel has a value, or most of them have none that is HU.
    """
    stored = _read_as_signed(stored)
    raw, path = stored.raw, stored.path
    if raw.dtype == np.int16 and not stored.is_scaled and raw.min() >= AIR_HU:
        hu = raw
    else:
        hu = np.empty(raw.shape, np.int16, order="F")
        num_nan = num_below = num_above = 0
        for at, slab in stored.slabs():
            slab = slab.astype(np.float64)  # unsigned numbers know no -1024
            nan = np.isnan(slab)
            num_nan += np.count_nonzero(nan)
            slab[nan] = AIR_HU
            num_below += np.count_nonzero(slab < AIR_HU)
            num_above += np.count_nonzero(slab > _MAX_HU)
            hu[..., at] = np.rint(np.clip(slab, AIR_HU, _MAX_HU))
        if num_nan == raw.size:
            raise DataError(f"{path}: all of its {raw.size} voxels are NaN. Fix: fetch it again.")
        if num_above > raw.size // 2:
            raise DataError(
                f"{path}: {num_above} of {raw.size} voxels are above {_MAX_HU}: no CT in HU. Fix: give the CT."
            )
        for count, what, bound in (
            (num_nan, "NaN", AIR_HU),
            (num_below, f"below {AIR_HU} HU", AIR_HU),
            (num_above, f"above {_MAX_HU} HU", _MAX_HU),
        ):
            if count:
                warn_once(f"{path}: {count} of {raw.size} voxels are {what}; replaced by {bound} HU.")
    lowest = int(hu.min())
    if lowest > _NO_AIR_HU:
        warn_once(
            f"{path}: its lowest value is {lowest} HU, and air is about -1000: was a rescale intercept, often -1024, "
            f"left out when it was made, or the background cut out? It is read as it is."
        )
    return hu


def labels(stored: StoredValues) -> np.ndarray:
    """Labels 0, 1 and 2, uint8 `[i, j, k]`; whole numbers stored as floats are accepted, with a warning.

    Raises:
      DataError: there are others.
    """
    raw, path = stored.raw, stored.path
    result = np.empty(raw.shape, np.uint8, order="F")
    low, high = np.inf, -np.inf
    as_floats = False
    for at, slab in stored.slabs():
        if slab.dtype.kind == "f":
            as_floats = True
            finite = np.isfinite(slab).all()
            whole = np.rint(slab)
            if not finite or np.abs(slab - whole).max() > _LABEL_TOLERANCE:
                what = "no integers" if finite else "NaN or infinite"
                raise DataError(f"{path}: holds labels that are {what}. Fix: store 0 background, 1 liver, 2 lesion.")
            slab = whole
        low, high = min(low, slab.min()), max(high, slab.max())
        if low >= 0 and high < NUM_CLASSES:
            result[..., at] = slab
    if low < 0 or high >= NUM_CLASSES:
        raise DataError(
            f"{path}: holds labels from {low:.0f} to {high:.0f}, not 0..{NUM_CLASSES - 1}. "
            f"Fix: map them to 0 background, 1 liver, 2 lesion."
        )
    if as_floats:
        what = f"{raw.dtype} with a scale" if stored.is_scaled else str(raw.dtype)
        warn_once(f"{path}: labels are stored as {what}; read as integers.")
    return result


def _read_as_signed(stored: StoredValues) -> StoredValues:
    raw = stored.raw
    if raw.dtype.kind != "u" or raw.dtype.itemsize != 2 or stored.is_scaled:
        return stored
    count = np.count_nonzero(raw > _MAX_HU)
    if not count:
        return stored
    warn_once(
        f"{stored.path}: {count} of {raw.size} voxels are above {_MAX_HU}, which negative HU become in unsigned 16-bit "
        f"numbers; read as signed."
    )
    return StoredValues(raw.view(raw.dtype.str.replace("u", "i")), 1.0, 0.0, stored.path)


@functools.cache
def warn_once(message: str) -> None:
    """Logs a warning; a file that is read several times is warned about once."""
    _log.warning(message)
